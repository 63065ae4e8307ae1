"""Messages of gateways that ask over gRPC, as far as they are read here: agentgateway's ExtMcp, Envoy's ext_authz.

The tables have the names, numbers and types of the published definitions; protobuf makes the classes from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

_Fields = Mapping[str, tuple[int, str]]
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {"string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES, "int32": _Field.TYPE_INT32}
_STRUCT: Final = struct_pb2.Struct.DESCRIPTOR.full_name

MCP_PACKAGE: Final = "agentgateway.dev.ext_mcp"
_MCP: Final[Mapping[str, _Fields]] = {
    "McpHeader": {"key": (1, "string"), "value": (2, "bytes")},
    "McpRequest": {
        "service_names": (1, "repeated string"),
        "method": (2, "string"),
        "metadata_context": (3, _STRUCT),
        "mcp_request": (4, "bytes"),
        "headers": (5, "repeated McpHeader"),
    },
    "McpResponse": {
        "service_names": (1, "repeated string"),
        "method": (2, "string"),
        "metadata_context": (3, _STRUCT),
        "mcp_response": (4, "bytes"),
    },
    "Pass": {},
    "AuthorizationError": {"code": (1, "int32"), "reason": (2, "string")},
    "McpResult": {"pass": (1, "Pass"), "mutated": (2, "bytes"), "error": (3, "AuthorizationError")},
}

AUTH_PACKAGE: Final = "envoy.service.auth.v3"
_AUTH: Final[Mapping[str, _Fields]] = {
    "HeadersEntry": {"key": (1, "string"), "value": (2, "string")},
    "HttpRequest": {
        "method": (2, "string"),
        "headers": (3, "repeated HeadersEntry"),  # a map, as it is on the wire
        "path": (4, "string"),
        "body": (11, "string"),
        "raw_body": (12, "bytes"),
    },
    "AttributeRequest": {"http": (2, "HttpRequest")},
    "AttributeContext": {"request": (4, "AttributeRequest")},
    "CheckRequest": {"attributes": (1, "AttributeContext")},
    "RpcStatus": {"code": (1, "int32"), "message": (2, "string")},
    "HttpStatus": {"code": (1, "int32")},
    "DeniedHttpResponse": {"status": (1, "HttpStatus"), "body": (3, "string")},
    "OkHttpResponse": {},
    "CheckResponse": {
        "status": (1, "RpcStatus"),
        "denied_response": (2, "DeniedHttpResponse"),
        "ok_response": (3, "OkHttpResponse"),
    },
}


def _classes(package: str, tables: Mapping[str, _Fields]) -> dict[str, Any]:
    """Return a class for each message of a package, from a pool of its own: others may know the real ones."""
    pool = descriptor_pool.DescriptorPool()
    struct_file = descriptor_pb2.FileDescriptorProto()
    struct_pb2.DESCRIPTOR.CopyToProto(struct_file)
    pool.Add(struct_file)
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3", dependency=[struct_file.name]
    )
    for name, fields in tables.items():
        message = file.message_type.add(name=name)
        for field, (number, written) in fields.items():
            kind = written.removeprefix("repeated ")
            label = _Field.LABEL_REPEATED if kind != written else _Field.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, label=label)
            if kind in _SCALARS:
                made.type = _SCALARS[kind]
            else:
                made.type = _Field.TYPE_MESSAGE
                made.type_name = f".{kind}" if "." in kind else f".{package}.{kind}"
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in tables}


MCP: Final = _classes(MCP_PACKAGE, _MCP)
AUTH: Final = _classes(AUTH_PACKAGE, _AUTH)
