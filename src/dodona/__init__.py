"""Dodona: a private oracle for data.

A sensitive table stands behind a privacy budget; analysts ask as many questions as they like; every answer is a little
noisy, carries an honest error bar, and tells about the crowd and never about a person.
"""

from __future__ import annotations

__version__ = "0.1.0"
