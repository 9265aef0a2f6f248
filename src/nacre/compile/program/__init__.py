"""Programs: control flow, execution, storage between processes, timing and tuning."""
