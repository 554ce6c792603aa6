"""The public names of Torch-MIGraphX, by module: SUPPORT.md says which of them exist here."""

from __future__ import annotations

from importlib import import_module

NAMES: dict[str, tuple[str, ...]] = {
    "torch_migraphx": ("fx", "dynamo"),
    "torch_migraphx.fx": ("CONVERTERS", "MGXInterpreter", "MGXModule", "lower_to_mgx", "migraphx_converter"),
    "torch_migraphx.fx.converter_registry": ("CONVERTERS", "migraphx_converter"),
    "torch_migraphx.fx.fx2mgx": ("MGXInterpreter",),
    "torch_migraphx.fx.lower": ("Lowerer", "LowerMgxInterpreter", "lower_to_mgx"),
    "torch_migraphx.fx.lower_setting": ("LowerSetting", "LowerSettingBasic"),
    "torch_migraphx.fx.mgx_module": ("MGXInstruction", "MGXModule", "SplitModule"),
    "torch_migraphx.fx.observer": ("Observer",),
    "torch_migraphx.fx.passes.graph_opts": ("common_subexpression_elimination",),
    "torch_migraphx.fx.passes.pass_utils": ("chain_passes", "validate_inference"),
    "torch_migraphx.fx.passes.remove_duplicate_output_args": ("remove_duplicate_output_args",),
    "torch_migraphx.fx.quantization": (
        "get_migraphx_backend_config", "get_migraphx_qconfig", "get_migraphx_qconfig_mapping",
    ),
    "torch_migraphx.fx.tools.mgx_benchmark": ("MGXBenchmarkResults", "benchmark"),
    "torch_migraphx.fx.tools.mgx_minimizer": ("MGXMinimizer", "MGXMinizerSetting"),
    "torch_migraphx.fx.tools.mgx_onnx": ("from_onnx",),
    "torch_migraphx.fx.tools.mgx_splitter": ("MGXSplitter", "MGXSplitterSetting", "create_mgx_operator_support"),
    "torch_migraphx.fx.tracer.acc_tracer.acc_normalizer": (
        "register_acc_op", "register_acc_op_mapping", "register_custom_acc_mapper_fn",
    ),
    "torch_migraphx.fx.tracer.acc_tracer.acc_ops": ("add", "conv2d", "linear", "matmul", "relu", "softmax"),
    "torch_migraphx.fx.tracer.acc_tracer.acc_shape_prop": ("AccShapeProp",),
    "torch_migraphx.fx.tracer.acc_tracer.acc_tracer": (
        "ConditionalExceptionWrapper", "rewriter_base_trace", "trace",
    ),
    "torch_migraphx.fx.tracer.acc_tracer.acc_utils": (
        "build_raw_tensor_meta", "get_field_from_acc_out_ty", "get_tensor_meta", "is_acc_op", "is_acc_op_with_kwarg",
        "map_tensor_metadata",
    ),
    "torch_migraphx.fx.tracer.aten_tracer.aten_tracer": ("trace",),
    "torch_migraphx.fx.utils": (
        "LowerPrecision", "get_graph_info", "get_node_info", "mgx_argument_from_ptr", "mgx_argument_from_tensor",
        "mgx_program_from_bytearray", "mgx_program_to_bytearray", "print_graph", "req_torch_version",
        "tensor_from_mgx_argument", "tensors_from_mgx_arguments", "torch_dtype_from_mgx", "torch_dtype_to_mgx",
        "torch_dtype_to_mgx_enum", "torch_qdtype_from_mgx", "torch_qdtype_to_mgx",
    ),
    "torch_migraphx.dynamo.backends": ("migraphx_aot_backend", "migraphx_backend"),
    "torch_migraphx.dynamo.lower_dynamo": ("lower_aten_to_mgx", "lower_subgraph"),
    "torch_migraphx.dynamo.mutation": (
        "Binding", "FunctionalExport", "Mutation", "MutationCopybackWrapper", "MutationPlan", "UnsupportedMutation",
        "UserOutput", "apply_mutation_plan", "export_functional", "graph_has_side_effects", "graph_may_mutate",
        "input_writes", "mutating_nodes", "node_may_mutate",
    ),
    "torch_migraphx.dynamo.passes.alias_analysis": (
        "AliasSource", "AliasSpec", "find_alias_to_inputs", "infer_output_aliases", "rebuild_alias",
    ),
    "torch_migraphx.dynamo.passes.const_fold": ("const_fold",),
    "torch_migraphx.dynamo.passes.fix_tensor_meta": ("fix_tensor_meta",),
    "torch_migraphx.dynamo.passes.partition": ("get_partition_inputs", "partition"),
    "torch_migraphx.dynamo.passes.pass_manager": ("MGXPassManager", "post_partition_pass", "pre_partition_pass"),
    "torch_migraphx.dynamo.passes.promote_types": ("promote_inputs",),
    "torch_migraphx.dynamo.passes.remove_empty_slice": ("remove_empty_slices",),
    "torch_migraphx.dynamo.passes.remove_lowered_constants": ("remove_lowered_constants",),
    "torch_migraphx.dynamo.passes.remove_ops": ("remove_clone_ops", "remove_const_ops", "remove_view_ops"),
    "torch_migraphx.dynamo.passes.rewrite_complex_ops": ("rewrite_complex_ops",),
    "torch_migraphx.dynamo.passes.rewrite_output_aliases": (
        "apply_alias_rewrite", "capture_partition_io", "plan_alias_rewrite",
    ),
    "torch_migraphx.dynamo.quantization": ("MGXQuantizer",),
    "torch_migraphx.executorch": ("export_precompiled", "prepare_export_graph"),
    "torch_migraphx._C": ("arg_to_tensor", "tensor_to_arg"),
}  # fmt: skip


def existing(module: str, names: tuple[str, ...]) -> list[str]:
    """Those of the names that can be imported; none where the module cannot."""
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # something that the module needs is missing
        return []
    return [name for name in names if hasattr(found, name)]
