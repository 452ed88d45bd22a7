"""isobit.distributed on two processes, over gloo."""

from test_nn_processes import on_two_processes

MESH = """
        import isobit, isobit.distributed
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor

        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

        def whole(y):
            ys = (y,) if isinstance(y, DTensor) else y
            return tuple(t.full_tensor() for t in ys)
"""


def test_every_op_has_its_bits_however_its_arguments_are_sharded(tmp_path):
    program = """
        import test_torch
        from test_torch import G, Q, R, S, X

        rows = [
            ("quantize_per_block", (X, G, None, [1, 3], *R, torch.int8)),
            ("dequantize_per_block", (Q, G, G.int(), [1, 3], *R, torch.int8)),
            ("fake_quantize_per_block_affine", (X, G, None, [1, 3], *R)),
            ("fake_quantize_per_block_affine_backward", (X, X, G, None, [1, 3], *R, "nearest", 0.5, True, True)),
            ("quantize_per_block_dynamic", (X, [1, 3], *R, torch.int8, False)),
            ("quantize_per_block", (X, X[:1] ** 2 + 1, None, [5, 1], *R, torch.int8)),
            ("quantize_per_tensor", (X, S[0], None, -8, 7, torch.int4)),  # a shard would end within a byte
        ]
        sharded = {}
        for name, args in [*test_torch.samples(), *rows]:
            if name == "embedding_renorm_":
                continue
            op = getattr(torch.ops.isobit, name)
            want = op(*args)
            want = (want,) if isinstance(want, torch.Tensor) else want
            found = sharded.setdefault(name, set())
            for i, a in enumerate(args):
                for dim in range(-1, a.dim() if isinstance(a, torch.Tensor) else -1):
                    given = [
                        distribute_tensor(t, mesh, [Replicate() if j != i or dim < 0 else Shard(dim)], src_data_rank=None)
                        if isinstance(t, torch.Tensor)
                        else t
                        for j, t in enumerate(args)
                    ]
                    y = op(*given)
                    assert_same(whole(y), want)
                    found.update(p.dim for p in (y if isinstance(y, DTensor) else y[0]).placements if p.is_shard())
        # What shards are along: dimensions of the first result.
        dims = {
            "": "choose_qparams_per_tensor quantize_per_tensor_dynamic dequantize_per_tensor_backward affine_grid "
            "fake_quantize_per_tensor_affine_backward affine_grid_backward embedding_bag_per_sample_weights_backward "
            "weight_only_embedding_bag "
            # but where blocks have extents of 1:
            "quantize_per_block_backward dequantize_per_block_backward choose_qparams_per_block",
            "0": "choose_qparams_per_channel quantize_per_channel_dynamic dequantize_per_channel_backward "
            "choose_qparams_per_token quantize_per_token_dynamic dequantize_per_token_backward dequantize_per_block "
            "fake_quantize_per_channel_affine_backward fake_quantize_per_token_affine_backward grid_sample_backward "
            "fake_quantize_per_block_affine fake_quantize_per_block_affine_backward quantize_per_block_dynamic",
            "1": "embedding_backward embedding_bag embedding_bag_backward",
            "01": "quantized_linear_per_group",
            "012": "matmul embedding",
            "023": "grid_sample_double_backward",
            "0123": "grid_sample",
        }
        dims = {name: found for found, names in dims.items() for name in names.split()}
        for name, found in sharded.items():
            along = "".join(map(str, sorted(found)))
            assert along == dims.get(name, "0" if "group" in name else "01"), (name, along)
    """
    on_two_processes(MESH + program, tmp_path)


def test_layers_in_parallel_train_with_the_bits_of_one_process(tmp_path):
    program = """
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        codes = {"dtype": torch.int8, "granularity": "per_channel"}
        learned = LearnableFakeQuantize.with_args()
        tokens = {"dtype": torch.int8, "granularity": "per_token"}

        def feed_forward(kind):
            return torch.nn.Sequential(kind(8, 6), torch.nn.ReLU(), kind(6, 4))

        def shard_weight(name, module, mesh):
            if isinstance(module, torch.nn.Linear):
                module.weight = torch.nn.Parameter(distribute_tensor(module.weight, mesh, [Shard(0)]))

        x, ids = draw(5, 8), torch.tensor([3, 0, 3, 5, 3])
        whole = {"input_layouts": Replicate(), "output_layouts": Replicate()}
        columns, rows = ColwiseParallel(**whole), RowwiseParallel(**whole)
        layers = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        for make, plan, given in (
            (lambda: feed_forward(Linear), layers, x),
            (lambda: feed_forward(QuantizedLinear), layers, x),
            (lambda: prepare(feed_forward(torch.nn.Linear), codes, tokens), {"0": columns, "2": columns}, x),
            (lambda: prepare(feed_forward(torch.nn.Linear), learned, tokens), None, x),
            (lambda: torch.nn.Sequential(Embedding(6, 8, padding_idx=0)), {"0": columns}, ids),
            (lambda: torch.nn.Sequential(Embedding(6, 8)), {"0": rows}, ids),
        ):
            torch.manual_seed(0)
            one = make()
            both = copy.deepcopy(one)
            want = one(given)
            if plan:
                got = parallelize_module(both, mesh, plan)(given)
            else:  # whose scales are parameters of other modules than the weight, which styles do not expect
                distribute_module(both, mesh, shard_weight)
                got = both(distribute_tensor(given, mesh, [Shard(0)])).full_tensor()
            assert_same(got, want)
            want.sin().sum().backward()
            got.sin().sum().backward()
            for p, q in zip(both.parameters(), one.parameters(), strict=True):
                assert isinstance(p, DTensor)
                assert_same(p.grad.full_tensor(), q.grad)
    """
    on_two_processes(MESH + program, tmp_path)
