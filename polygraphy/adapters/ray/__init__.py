"""Ray: the jobs of a sweep on the hosts and GPUs of a cluster."""
