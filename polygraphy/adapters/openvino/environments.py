"""OpenVINO in other Python environments."""

from __future__ import annotations

from polygraphy.adapters.os.interpreters import OtherEnvironment

_RUN = """
import json, sys
import numpy, openvino
model, given, made, how = sys.argv[1:]
how = json.loads(how)
core = openvino.Core()
read = core.read_model(model)
inputs = list(read.inputs)
asked = [value.any_name for value in inputs]
count = len(read.outputs)
sink = "/sink_port_0"
names = [
    value.node.friendly_name[: -len(sink)] if value.node.friendly_name.endswith(sink)
    else value.any_name for value in read.outputs
]
request = core.compile_model(read, how["device"], how["properties"]).create_infer_request()
with numpy.load(given) as stored:
    for i in range(len(asked)):
        request.set_input_tensor(i, openvino.Tensor(numpy.ascontiguousarray(stored[str(i)])))
request.infer()
values = [request.get_output_tensor(i).data for i in range(count)]
numpy.savez(made, **{str(i): value for i, value in enumerate(values)})
print("names", json.dumps(names))
"""


def open_environment(path: str) -> OtherEnvironment:
    """Return an installation of OpenVINO in another Python environment; see the port."""
    return OtherEnvironment(path, "openvino", "OpenVINO", _RUN)
