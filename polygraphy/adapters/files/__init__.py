"""Results and inputs in JSON files: `FileResultStore` and its parts.

From the bottom up: `base64_text` and `npy` turn arrays into text and back; `json_codec` knows which
type is saved by which fields, and the ``*_codec`` modules tell it; `json_writer` and
`json_document` write and read text without ever holding an array as text; `json_io` adds files and
errors; `writers`, `iterations` and `store` implement the port. `text` is about any other text.
"""
