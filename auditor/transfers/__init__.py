"""Transfers between the device, the host and storage, held against their siblings."""
