#!/usr/bin/env python
"""Tidemark's command line: `manage.py help` lists the commands."""

from webapp.__main__ import main

if __name__ == "__main__":
    main()
