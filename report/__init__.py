"""Pages and plots: Jinja2 templates with one style sheet, one plot module, one formatter."""
