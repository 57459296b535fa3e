"""OpenVINO; uses the shared rooms only."""
