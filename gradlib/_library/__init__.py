"""What `gradlib.library` is made of: `infer_schema`, `custom_ops`, `opcheck`."""
