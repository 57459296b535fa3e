"""The command `doctor`."""

from __future__ import annotations

from polygraphy.cli.commands.command import OneCall

DOCTOR = OneCall(
    "doctor",
    "Show versions, backends, execution providers, devices and the settings in the environment, and"
    " how to install what is missing. Nothing is changed.",
    says="Show which backends, devices and settings there are.",
    call="doctor",
)
