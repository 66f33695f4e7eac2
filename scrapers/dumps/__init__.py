"""Caption dumps: find and decompress files, stream JSON, detect record layouts, import and export."""
