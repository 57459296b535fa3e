"""NNCF, which quantizes again in a process of its own: it takes seconds to import."""
