"""Programs that leave blocks: `break`, `continue`, `return`, `else` of loops, `finally`, `with`, in every nesting."""

from __future__ import annotations  # noqa: I001

import contextlib
from typing import Any

from transform.autograph.numeric import PAIRS, WHOLE_VECTORS, numeric


# ---- rows of a vector


@numeric(*WHOLE_VECTORS)
def evens_of_rows(v: Any) -> Any:
    found, product = 0, 1
    for row in v:
        if row % 2 == 1:
            continue
        found, product = found + 1, product * row
    return found, product


@numeric(*WHOLE_VECTORS)
def rows_until_an_odd_one(v: Any) -> Any:
    longest = 0
    for row in v:
        if row % 2 == 1:
            break
        longest = longest * 2 + row
    return longest


@numeric(*WHOLE_VECTORS)
def the_first_row_alone(v: Any) -> Any:
    for row in v:
        return row * 7, 1
    return -1, 0


@numeric(*WHOLE_VECTORS)
def either_way_out_at_the_first_row(v: Any) -> Any:
    weight = 2
    for row in v:
        weight = weight + row * row
        if row > 3:
            return weight
        else:
            return weight - 100
    return weight


@numeric(*WHOLE_VECTORS)
def rows_with_an_else(v: Any) -> Any:
    digits = 0
    for row in v:
        digits = digits * 10 + row
        if row > 6:
            break
    else:
        digits = -digits - 1
    return digits


@numeric(*WHOLE_VECTORS)
def a_local_of_each_row(v: Any) -> Any:
    digest = 17
    for row in v:
        mixed = row * 31 + digest
        digest = mixed % 1009
    return digest


@numeric(*WHOLE_VECTORS)
def the_loop_variable_has_a_value_before(v: Any) -> Any:
    row = 12
    turns = 0
    for row in v:
        turns = turns + 1 if row < 5 else turns
    return row, turns


@numeric(*WHOLE_VECTORS)
def the_loop_variable_is_assigned(v: Any) -> Any:
    row, total = 2, 0
    for row in v:
        row = row * row - 1
        if row > 20:
            total = total + row
    return row, total


@numeric(*WHOLE_VECTORS)
def rows_of_rows(v: Any) -> Any:
    count = 0
    for a in v:
        for b in v:
            if a == b:
                break
            if a + b == 7:
                continue
            count = count + 1
    return count


# ---- while


@numeric()
def returns_in_the_first_round(n: Any) -> Any:
    area = 3
    while n > 1:
        area = area + n * n
        n = n - 2
        return area
    return area - n


@numeric()
def returns_in_the_first_round_on_both_sides(n: Any) -> Any:
    area = 3
    while n > 1:
        n = n // 2
        area = area * (n + 1)
        if n > 1:
            return area
        else:
            return -area
    return area - n


@numeric(*PAIRS)
def drains_two_tanks(a: Any, b: Any) -> Any:
    steps = 0
    while a > 0:
        a = a - 1
        while b > 0:
            b = b - 2
            if b % 3 == 1:
                continue
            steps = steps + a * 10 + 1
        b = b + a
    return steps, a, b


@numeric(*PAIRS)
def leaves_the_inner_tank(a: Any, b: Any) -> Any:
    steps = 1
    while a > 0:
        a = a - 1
        while b < 9:
            b = b + a + 1
            if b % 4 == 0:
                break
            steps = steps + b
        b = b - 3
    return steps, b


@numeric(*PAIRS)
def leaves_or_goes_on_in_the_inner_tank(a: Any, b: Any) -> Any:
    visits = 0
    while a > 0:
        a = a - 1
        while b > 0:
            b = b - 1
            visits = visits + 1
            if a > b:
                break
            else:
                continue
            visits = visits + 1000
    return visits


@numeric(*PAIRS)
def an_if_behind_a_break(a: Any, b: Any) -> Any:
    for step in range(b):
        if step == 3:
            break
        if a > step:
            a = a - step - 1
    return a


@numeric()
def three_reasons_to_stop(n: Any) -> Any:
    product, k = 1, 0
    while k < 8:
        k = k + 1
        product = product * (k + 1)
        if product > 500:
            break
        if k * k > n * 3:
            break
        if product % 13 == 0:
            break
        product = product + 1
    return product, k


@numeric()
def a_condition_of_two_breaks(n: Any) -> Any:
    low, high = 0, n * 3
    while True:
        if low >= high:
            break
        low = low + 2
        if high % 5 == 0:
            break
        high = high - 1
    return low, high


@numeric()
def breaks_out_by_a_variable(n: Any) -> Any:
    done, turns = False, 0
    while not done:
        for k in range(4):
            turns += 1
            if turns + k > n:
                done = True
                break
    return turns


@numeric()
def a_continue_alone(n: Any) -> Any:
    total = 0
    for k in range(4):
        if k > n:
            continue
        total += k
    for k in range(4):  # noqa: B007
        continue
    return total, k


@numeric()
def a_break_alone(n: Any) -> Any:
    for k in range(4):  # noqa: B007
        break
    while n > 0:
        break
    return k if n > 2 else n


# ---- else


@numeric()
def an_inner_else_goes_on(n: Any) -> Any:
    total = 0
    for i in range(3):  # noqa: B007
        for j in range(3):
            if j > n:
                break
        else:
            continue
        total += 1
    return total


@numeric()
def elses_of_three_loops(n: Any) -> Any:
    total = 0
    for i in range(4):
        for j in range(3):
            if i * j > n:
                break
            total += 1
        else:
            total += 10
            continue
        total += 100
        break
    else:
        total += 1000
    return total


@numeric()
def an_else_of_a_while_in_a_while(n: Any) -> Any:
    total = k = j = 0
    while k < 3:
        j = 0
        while j < n:
            j += 1
            if j > 2:
                break
        else:
            total += 10
        k += 1
    else:
        total += 1
    return total, k, j


@numeric()
def an_else_that_returns(n: Any) -> Any:
    for k in range(5):
        if k > n:
            break
    else:
        return 100
    return k


@numeric()
def an_else_that_never_runs(n: Any) -> Any:
    while True:
        n += 1
        if n > 4:
            break
    else:
        n = 1000
    return n


# ---- return


@numeric(*PAIRS)
def an_inner_if_returns(a: Any, b: Any) -> Any:
    if a > b:  # noqa: SIM102
        if a > 3:
            return a * 100
    return b - a


@numeric(*PAIRS)
def returns_before_an_empty_loop(a: Any, b: Any) -> Any:
    if a > 0:  # noqa: SIM102
        if b > 2:
            return 77
    for _ in range(b):
        pass
    return a + 1


@numeric()
def returns_at_each_depth(n: Any) -> Any:
    if n > 0:
        if n > 1:
            if n > 2:
                if n > 3:
                    return 5
                return 4
            return 3
        return 2
    return 1


@numeric()
def returns_from_three_loops(n: Any) -> Any:
    for i in range(3):
        for j in range(3):
            k = 0
            while k < 3:
                if i + j + k == n:
                    return i, j, k
                k += 1
    return 9, 9, 9


@numeric()
def returns_nested_values(n: Any) -> Any:
    if n > 2:
        return n, {"a": [n, 1]}, None
    return 1, {"a": [2, n]}, None


@numeric()
def returns_nothing_on_both_ways(n: Any) -> Any:
    if n > 2:
        return None
    return


# ---- with


@numeric()
def returns_within_two_contexts(n: Any) -> Any:
    with contextlib.nullcontext(4) as limit:
        if n < limit:
            with contextlib.nullcontext():
                if n > 1:
                    return n + 40
                n = n + 1
        else:
            return n - limit
    return n * 1000


@numeric()
def statements_behind_returns_of_all_ways(n: Any) -> Any:
    with contextlib.nullcontext():
        if n > 2:
            return n
        with contextlib.nullcontext():
            return n + 2
    return n + 3


@numeric()
def a_break_within_a_context(n: Any) -> Any:
    total = 0
    while n > 0:
        with contextlib.nullcontext(2) as step:
            n = n - step
            if n == 3:
                break
            total = total + n + 3
        total = total * 2
    return total, n


@numeric()
def a_stack_of_contexts(n: Any) -> Any:
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.nullcontext())
        if n > 2:
            n = n + 1
    return n


@numeric()
def a_context_of_a_generator(n: Any) -> Any:
    log = []

    @contextlib.contextmanager
    def logged():
        log.append(1)
        try:
            yield 4
        finally:
            log.append(2)

    def chosen():
        with logged() as limit:
            if n > limit:
                return n
            return limit

    return chosen(), len(log)


@numeric()
def a_context_binds_a_name_in_a_branch(n: Any) -> Any:
    found = 0
    if n > 2:
        with contextlib.nullcontext(n * 2) as found:
            pass
    return found


# ---- try


def fails() -> Any:
    raise ValueError


@numeric()
def a_call_fails_behind_a_return(n: Any) -> Any:
    if n > 2:
        return n
    try:
        return fails()
    except ValueError:
        n = n + 5
    return n


@numeric()
def a_call_fails_in_each_round(n: Any) -> Any:
    k = 0
    while k < n:
        k += 1
        try:
            fails()
        except ValueError:
            k += 1
    return k


@numeric()
def a_handler_goes_on(n: Any) -> Any:
    k = total = 0
    while k < n:
        k += 2
        try:
            fails()
        except ValueError:
            continue
        total += 100
    return k, total


@numeric()
def a_handler_returns(n: Any) -> Any:
    k = 0
    while k < n:
        k += 1
        try:
            fails()
        except ValueError:
            return k * 10
        k += 100
    return k


@numeric()
def a_handler_binds_a_name(n: Any) -> Any:
    try:
        raise ValueError("x")
    except ValueError as fault:
        size = len(str(fault))
        if n > 2:
            size = size + n
    return size


@numeric()
def a_whole_try_in_a_branch(n: Any) -> Any:
    if n > 2:
        try:
            found = [1, 2][5]
        except IndexError:
            found = n * 2
        except KeyError:
            found = 0
        else:
            found = 1
        finally:
            last = 3
    else:
        found, last = 1, 2
    return found + last


@numeric()
def a_continue_past_else_and_finally(n: Any) -> Any:
    log = 0
    for k in range(3):
        try:
            if n > k:
                continue
            log += 1
        except ValueError:
            log += 100
        else:
            log += 10
        finally:
            log += 1000
    return log


@numeric()
def a_try_in_a_try(n: Any) -> Any:
    log = 0
    try:
        try:
            if n > 2:
                log = 1
            raise KeyError
        except ValueError:
            log += 100
        finally:
            log += 10
    except KeyError:
        log += 1000
    return log


@numeric()
def an_exception_with_a_cause(n: Any) -> Any:
    try:
        try:
            {}["a"]
        except KeyError as fault:
            raise ValueError("b") from fault
    except ValueError as fault:
        found = 3 if isinstance(fault.__cause__, KeyError) else 4
    return found if n > 2 else n


@numeric()
def a_group_of_exceptions(n: Any) -> Any:
    try:
        raise ExceptionGroup("g", [ValueError(1)])
    except* ValueError as group:
        found = len(group.exceptions)
    if n > 2:
        found += n
    return found


@numeric()
def a_handler_raises_again(n: Any) -> Any:
    try:
        try:
            {}["a"]
        except KeyError:
            raise
    except (KeyError, ValueError) as fault:
        size = len(fault.args)
    return n if n > 2 else size


# ---- finally


@numeric()
def finally_behind_returns(n: Any) -> Any:
    try:
        if n > 2:
            return n * 3
        return n - 3
    finally:
        n = n + 1000


@numeric()
def finally_returns_instead(n: Any) -> Any:
    try:
        return n + 70
    finally:
        if n > 1:
            return n + 80  # noqa: B012
        return n + 90  # noqa: B012, SIM107


@numeric()
def finally_returns_sometimes(n: Any) -> Any:
    try:
        return n + 70
    finally:
        if n > 1:
            return n + 80  # noqa: B012


@numeric()
def both_return_sometimes(n: Any) -> Any:
    try:
        if n > 4:
            return 7
    finally:
        if n > 1:
            return 1  # noqa: B012
    return 3


@numeric()
def finally_within_finally(n: Any) -> Any:
    try:
        try:
            return 1
        finally:
            if n > 5:
                return 2  # noqa: B012
    finally:
        if n > 2:
            return 3  # noqa: B012


@numeric()
def finally_in_a_branch(n: Any) -> Any:
    if n > 1:
        try:
            return 1
        finally:
            if n > 4:
                return 2  # noqa: B012
    return 3


@numeric()
def finally_drops_an_exception(n: Any) -> Any:
    for k in range(3):
        try:
            if k > 1:
                return n
            raise ValueError
        finally:
            if k < 3:
                return n + 1 if n > 2 else 7  # noqa: B012
    return 0


@numeric()
def finally_drops_the_exception_of_the_function(n: Any) -> Any:
    try:
        found = [1][0]
        raise ValueError
    finally:
        if found == 1:
            return n if n > 2 else found  # noqa: B012


@numeric()
def finally_goes_on(n: Any) -> Any:
    total = 0
    for k in range(3):
        try:
            if k == 5:
                raise KeyError
            total += n
        finally:
            if n > 2:
                continue  # noqa: B012
        total += 100
    return total


@numeric()
def finally_counts_the_rounds(n: Any) -> Any:
    turns = gain = 0
    while n > 0:
        n = n - 2
        try:
            if n < 4:
                continue
            gain = gain + n
        finally:
            turns = turns + 1
    return turns, gain


@numeric()
def finally_behind_a_break(n: Any) -> Any:
    turns = gain = 0
    while n > 0:
        n = n - 2
        try:
            if n == 3:
                break
            gain = gain + n
        finally:
            turns = turns + 1
    return turns, gain


@numeric()
def finally_behind_a_return_in_a_loop(n: Any) -> Any:
    total = 0
    while n > 0:
        n -= 1
        try:
            total += n
            if total > 6:
                return total
        finally:
            total += 1
    return -total
