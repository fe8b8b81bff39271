"""The jobs, one module each.

`transform` is pure: DataFrames in, a DataFrame out, nothing read or written. `COLUMNS` are the columns of
`journal_event` that it needs; a source whose schema has only those reads no others."""
