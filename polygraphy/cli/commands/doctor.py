"""The command `doctor`."""

from __future__ import annotations

from polygraphy.cli.commands.command import OneCall

DOCTOR = OneCall(
    "doctor",
    "Show versions, backends, execution providers, devices and environment settings, and how to"
    " install missing packages. Changes nothing.",
    says="Show backends, devices and settings.",
    call="doctor",
)
