"""Gateways that ask over gRPC: agentgateway's ExtMcp, and Envoy's ext_authz.

The tables of messages have the names, numbers and types of the published definitions, as far as they are read here;
protobuf makes the classes from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

from stream_guard.errors import SettingsError
from stream_guard.judge.arguments import parse_json
from stream_guard.mcp_wire.judge import McpJudge, SessionKey, SessionKeys, call_of
from stream_guard.mcp_wire.messages import BadMessageError, read_message, write_message
from stream_guard.serve.access import Door, Identity
from stream_guard.serve.app import OwnGate
from stream_guard.serve.gateways import authorize
from stream_guard.settings import ApiSettings

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


_THREADS: Final = 16
_PASS: Final[dict[str, Any]] = {"pass": {}}
_DENIED, _INVALID = 1, 3  # of ExtMcp
_PERMISSION_DENIED: Final = 7  # of gRPC


class GrpcGateways:
    """Answers on a port of its own. What fails is an error of gRPC, which gateways take for a no, unless told else."""

    def __init__(self, own: OwnGate, door: Door, settings: ApiSettings, port: int) -> None:
        self._own, self._door, self._keys = own, door, SessionKeys(settings.session_by)
        most = [("grpc.max_receive_message_length", settings.max_body_bytes)]
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="stream_guard-grpc")
        self._server = grpc.server(pool, options=most, maximum_concurrent_rpcs=settings.max_in_flight)
        services = {
            f"{MCP_PACKAGE}.ExtMcp": {
                "CheckRequest": (self._mcp_request, MCP["McpRequest"], MCP["McpResult"]),
                "CheckResponse": (self._mcp_response, MCP["McpResponse"], MCP["McpResult"]),
            },
            f"{AUTH_PACKAGE}.Authorization": {"Check": (self._check, AUTH["CheckRequest"], AUTH["CheckResponse"])},
        }
        handlers = [
            grpc.method_handlers_generic_handler(
                service,
                {
                    name: grpc.unary_unary_rpc_method_handler(work, asked.FromString, answered.SerializeToString)
                    for name, (work, asked, answered) in methods.items()
                },
            )
            for service, methods in services.items()
        ]
        self._server.add_generic_rpc_handlers(handlers)
        try:
            self.port = self._server.add_insecure_port(f"{settings.host}:{port}")
        except RuntimeError as error:
            raise SettingsError(f"cannot listen on {settings.host} port {port} for gRPC: {error}") from None
        self._pool = pool
        self._server.start()

    def close(self) -> None:
        """Answer nothing more."""
        self._server.stop(1).wait()
        self._pool.shutdown()
        self._own.close()

    def _who(self, context: Any) -> Identity:
        """Return who asks, by the metadata of the call; without the right token the call ends here."""
        shown = {name.lower(): value for name, value in context.invocation_metadata()}
        token = shown.get("x-stream-guard-token", "")
        authorization = f"Bearer {token}" if token else str(shown.get("authorization", ""))
        found = self._door.identify(authorization.encode(), b"127.0.0.1")
        if not isinstance(found, Identity) or "agent" not in found.roles:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "show the token of an agent in x-stream-guard-token")
            raise AssertionError("abort raises")
        return found

    def _judge(self, context: Any, *, can_modify: bool) -> McpJudge:
        return McpJudge(self._own.asked_by(self._who(context)), can_modify=can_modify)

    def _mcp_request(self, asked: Any, context: Any) -> Any:
        """Answer what agentgateway asks before it passes a request on."""
        judge = self._judge(context, can_modify=True)
        if asked.method != "tools/call":
            return MCP["McpResult"](**_PASS)
        try:
            params = parse_json(asked.mcp_request or b"{}")
            message = read_message(write_message({"id": 0, "method": asked.method, "params": params}))
            call = call_of(message, self._session(asked, message["params"]))
        except (BadMessageError, ValueError, RecursionError) as error:
            return _refused(str(error), _INVALID)
        ruling = judge.check(call)
        if ruling.refusal:
            return _refused(ruling.refusal, _DENIED)
        if ruling.args is call.args:
            return MCP["McpResult"](**_PASS)
        return MCP["McpResult"](mutated=write_message({**message["params"], "arguments": ruling.args}))

    def _mcp_response(self, asked: Any, context: Any) -> Any:
        """Answer what agentgateway asks before it shows a result."""
        judge = self._judge(context, can_modify=False)
        try:
            result = parse_json(asked.mcp_response or b"{}")
        except (ValueError, RecursionError) as error:
            return _refused(str(error), _INVALID)
        why = judge.read(self._session(asked, {}), asked.method, result)
        return _refused(why, _DENIED) if why else MCP["McpResult"](**_PASS)

    def _session(self, asked: Any, params: dict[str, Any]) -> SessionKey:
        """Return the session that the gateway's configuration names, or else what the request carries."""
        named = asked.metadata_context.fields.get("session")
        if named is not None and named.string_value:
            return SessionKey(named.string_value[:200], "metadata")
        listed = getattr(asked, "headers", ())
        return self._keys.find(params, {one.key.lower(): one.value.decode("latin-1") for one in listed})

    def _check(self, asked: Any, context: Any) -> Any:
        """Answer what Envoy asks before it passes a request on."""
        judge = self._judge(context, can_modify=False)
        http = asked.attributes.request.http
        headers = {one.key.lower(): one.value for one in http.headers}
        why = authorize(judge.check, self._keys, http.method, headers, http.raw_body or http.body.encode())
        if not why:
            return AUTH["CheckResponse"](status={"code": 0}, ok_response={})
        denied = {"status": {"code": 403}, "body": why.decode()}
        return AUTH["CheckResponse"](status={"code": _PERMISSION_DENIED}, denied_response=denied)


def _refused(why: str, code: int) -> Any:
    return MCP["McpResult"](error={"code": code, "reason": why})
