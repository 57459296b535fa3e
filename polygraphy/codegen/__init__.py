"""Renders programs: from plain values, through Jinja2 templates, to Python source."""
