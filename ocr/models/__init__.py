"""The networks that read: made smaller and faster from those of the package `rapidocr`, once a machine."""
