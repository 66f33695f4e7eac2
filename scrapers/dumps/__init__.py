"""Caption dumps: finding and unpacking files, reading JSON as a stream, the layouts of records, import and export."""
