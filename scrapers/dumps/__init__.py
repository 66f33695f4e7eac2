"""Own data and caption dumps: find files, read rows and JSON, detect columns and layouts, import and export."""
