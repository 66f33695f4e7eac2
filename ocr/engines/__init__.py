"""OCR engines: the contract, the registry, and one module per engine."""
