"""Clients of curio's interface that owe nothing to our .proto file: its names and numbers, written down a second time.

CURIO_PROTO=…/cuzk/v1/proving.proto takes them from curio's own file instead (protoc of grpcio-tools).
"""
from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MESSAGES = {
    "SubmitProofRequest": "1 string request_id, 2 ProofKind proof_kind, 3 uint64 sector_size, "
                          "4 uint64 registered_proof, 5 Priority priority, 10 bytes vanilla_proof, "
                          "11 bytes* vanilla_proofs, 20 uint64 sector_number, 21 uint64 miner_id, 22 bytes randomness, 23 uint32 partition_index, 30 bytes comm_r_old, "
                          "31 bytes comm_r_new, 32 bytes comm_d_new",
    "SubmitProofResponse": "1 string job_id, 2 uint32 queue_position, 3 string assigned_gpu",
    "AwaitProofRequest": "1 string job_id, 2 uint64 timeout_ms",
    "AwaitProofResponse": "1 string job_id, 2 AwaitProofResponse.Status status, 3 bytes proof, 4 string error_message, "
                          "10 uint64 queue_wait_ms, 11 uint64 srs_load_ms, 12 uint64 synthesis_ms, "
                          "13 uint64 gpu_compute_ms, 14 uint64 total_ms",
    "ProveRequest": "1 SubmitProofRequest submit",
    "ProveResponse": "1 AwaitProofResponse result",
    "CancelProofRequest": "1 string job_id",
    "CancelProofResponse": "1 bool was_running",
    "GetStatusRequest": "",
    "GetStatusResponse": "1 GPUStatus* gpus, 2 SRSStatus* loaded_srs, 3 QueueStatus* queues, "
                         "4 uint64 total_proofs_completed, 5 uint64 total_proofs_failed, 6 uint64 uptime_seconds, "
                         "7 uint64 pinned_memory_bytes, 8 uint64 pinned_memory_limit_bytes",
    "GPUStatus": "1 uint32 ordinal, 2 string name, 3 uint64 vram_total_bytes, 4 uint64 vram_free_bytes, "
                 "5 string current_job_id, 6 string current_proof_kind",
    "SRSStatus": "1 string circuit_id, 2 SRSStatus.Tier tier, 3 uint64 size_bytes, 4 uint32 ref_count",
    "QueueStatus": "1 string proof_kind, 2 uint32 pending, 3 uint32 in_progress",
    "PreloadSrsRequest": "1 string circuit_id",
    "PreloadSrsResponse": "1 bool already_loaded, 2 uint64 load_time_ms",
    "EvictSrsRequest": "1 string circuit_id",
    "EvictSrsResponse": "1 bool was_loaded, 2 uint64 freed_bytes",
    "GetMetricsRequest": "",
    "GetMetricsResponse": "1 string prometheus_text",
}
ENUMS = {
    "ProofKind": "PROOF_KIND_UNSPECIFIED POREP_SEAL_COMMIT SNAP_DEALS_UPDATE WINDOW_POST_PARTITION WINNING_POST",
    "Priority": "PRIORITY_UNSPECIFIED LOW NORMAL HIGH CRITICAL",
    "AwaitProofResponse.Status": "UNKNOWN COMPLETED FAILED CANCELLED TIMEOUT",
    "SRSStatus.Tier": "HOT WARM COLD",
}
CALLS = {
    "SubmitProof": ("SubmitProofRequest", "SubmitProofResponse"),
    "AwaitProof": ("AwaitProofRequest", "AwaitProofResponse"),
    "Prove": ("ProveRequest", "ProveResponse"), "CancelProof": ("CancelProofRequest", "CancelProofResponse"),
    "GetStatus": ("GetStatusRequest", "GetStatusResponse"), "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse"),
    "PreloadSRS": ("PreloadSrsRequest", "PreloadSrsResponse"), "EvictSRS": ("EvictSrsRequest", "EvictSrsResponse"),
}


def descriptor() -> descriptor_pb2.FileDescriptorProto:
    """Of the tables above."""
    file = descriptor_pb2.FileDescriptorProto(name="curio.proto", package="cuzk.v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(", ")):
            number, kind, field = text.split()
            found = message.field.add(name=field, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            if kind in ENUMS or kind in MESSAGES:
                found.type, found.type_name = 14 if kind in ENUMS else 11, f".cuzk.v1.{kind}"
            else:
                found.type = {"string": 9, "bytes": 12, "uint32": 13, "uint64": 4, "bool": 8}[kind]
    for name, values in ENUMS.items():
        owner, _, inner = name.rpartition(".")
        of = next(m for m in file.message_type if m.name == owner).enum_type if owner else file.enum_type
        enum = of.add(name=inner)
        for number, value in enumerate(values.split()):
            enum.value.add(name=value, number=number)
    service = file.service.add(name="ProvingEngine")
    for name, (taken, given) in CALLS.items():
        service.method.add(name=name, input_type=f".cuzk.v1.{taken}", output_type=f".cuzk.v1.{given}")
    return file


def messages(folder: Path) -> SimpleNamespace:
    """Message classes; `folder` is for what protoc writes."""
    theirs = os.environ.get("CURIO_PROTO")
    if theirs:
        from grpc_tools import protoc

        assert protoc.main(["", f"-I{Path(theirs).parent}", f"--python_out={folder}", theirs]) == 0
        sys.path.insert(0, str(folder))
        try:
            module = importlib.import_module(f"{Path(theirs).stem}_pb2")
        finally:
            sys.path.remove(str(folder))
        return SimpleNamespace(**{name: getattr(module, name) for name in MESSAGES})
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor())
    return SimpleNamespace(**{name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cuzk.v1.{name}"))
                              for name in MESSAGES})


class Curio:
    """Its calls: curio.Prove(submit=…) -> ProveResponse. Raises grpc.RpcError."""

    def __init__(self, channel: grpc.Channel, classes: SimpleNamespace):
        self.messages, self._channel = classes, channel

    def __getattr__(self, call: str):
        taken, given = (getattr(self.messages, name) for name in CALLS[call])
        send = self._channel.unary_unary(f"/cuzk.v1.ProvingEngine/{call}", taken.SerializeToString, given.FromString)
        return lambda timeout=30, **fields: send(taken(**fields), timeout=timeout)

    def future(self, call: str, **fields):
        """The same without waiting."""
        taken, given = (getattr(self.messages, name) for name in CALLS[call])
        return self._channel.unary_unary(f"/cuzk.v1.ProvingEngine/{call}", taken.SerializeToString,
                                         given.FromString).future(taken(**fields))
