"""`pdctl pair` from options, from files, from model directories, and on bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pdchecks.pair.bundled import DEFAULT_BLOCK_TOKENS, DEFAULT_DTYPE, KNOWN_OPTIONS, canonical_option
from pdchecks.pair.command import DescriptionError, option_json, parse_command
from pdctl.app import app
from pdctl.errors import PdError, UsageError

CONFIG = Path(__file__).parents[2] / "data" / "configs" / "llama-3.1-8b.json"
VLLM = "vllm 0.33.0"


def run(*argv: str) -> Result:
    result = CliRunner().invoke(app, ["pair", *argv])
    if isinstance(result.exception, PdError):
        raise result.exception
    return result


def usual(*more: str) -> Result:
    return run("--model", str(CONFIG), "--engine", VLLM, "--prefill", "h100", "--decode", "a100", *more)


def test_options_describe_a_pair_and_the_table_says_what_to_type() -> None:
    result = usual("--prefill-args", "--tensor-parallel-size 2")
    assert result.exit_code == 1
    assert "FATAL        tp_size: prefill 2, decode 1" in result.stdout
    fix = "start prefill with `--tensor-parallel-size 1`, or decode with `--tensor-parallel-size 2`"
    assert fix in " ".join(result.stdout.split())
    assert "verdict: fatal: they do not fit (1 fatal, 2 unknown, 1 convertible, " in result.stdout
    assert result.stdout.endswith("  without this verdict the engines would refuse each other\n")


def test_what_the_engines_would_not_notice_is_said_in_the_last_line() -> None:
    quoted = '--kv-transfer-config \'{"kv_connector":"NixlConnector"}\''
    result = usual("--prefill-args", quoted, "--decode-args", f"{quoted} --hf-overrides.rope_theta 10000")
    assert result.exit_code == 1
    assert result.stdout.endswith("the engines do not notice rope.theta: HTTP 200, and wrong or useless answers\n")
    assert "the engines do not compare it" in result.stdout


def test_what_is_not_known_is_said_and_exits_3() -> None:
    result = usual()
    assert result.exit_code == 3
    assert "UNKNOWN      model_digest: prefill unknown, decode unknown" in result.stdout
    assert "only llama-3.1-8b.json was given" in result.stdout


def test_a_dtype_has_its_name_also_where_the_other_side_s_is_not_known() -> None:
    result = run("--model", str(CONFIG), "--engine", VLLM, "--prefill", "h100")
    assert "dtype: prefill bfloat16, decode unknown" in result.stdout


def test_the_gpu_kinds_that_it_takes_are_listed_by_a_help_topic() -> None:
    listed = CliRunner().invoke(app, ["help", "gpu-kinds"]).stdout
    kinds = [line.split()[0] for line in listed.split("\n\n")[0].splitlines()[1:]]
    assert "h100-sxm" in kinds and "cpu" in kinds
    for kind in kinds:
        run("--model", str(CONFIG), "--engine", VLLM, "--prefill", kind, "--decode", kind)


def test_the_example_of_the_help_topic_is_a_description_that_works(tmp_path: Path) -> None:
    example = CliRunner().invoke(app, ["help", "pair-file"]).stdout.split("\n\n")[0]
    file = tmp_path / "pair.yml"
    file.write_text(example.replace("config: /models/llama-3.1-8b ", f"config: {CONFIG} "), encoding="utf-8")
    assert "tp_size: prefill 2, decode 4" in run(str(file)).stdout


def test_equal_fields_are_shown_on_request_only() -> None:
    assert "EQUAL" not in usual().stdout
    assert "EQUAL        layers: prefill 32, decode 32" in usual("-v").stdout


def model_directory(folder: Path, weights: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(CONFIG.read_bytes())
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}', encoding="utf-8")
    return folder


def test_two_directories_are_compared_by_their_contents_not_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, same = model_directory(tmp_path / "one", b"weights"), model_directory(tmp_path / "same", b"weights")
    other = model_directory(tmp_path / "other", b"weightz")
    argv = ("--engine", VLLM, "--prefill", "h100", "--decode", "h100", "-o", "json", "--prefill-model", str(one))
    fits = run(*argv, "--decode-model", str(same))
    assert (fits.exit_code, json.loads(fits.stdout)["verdict"]) == (0, "equal")
    differs = run(*argv, "--decode-model", str(other))
    fatal = [one["field"] for one in json.loads(differs.stdout)["fields"] if one["outcome"] == "fatal"]
    assert (differs.exit_code, fatal) == (1, ["model_digest"])


def test_a_directory_without_weights_leaves_them_unknown_and_reads_its_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = model_directory(tmp_path / "m", b"")
    (folder / "model.safetensors").unlink()
    result = run("--model", str(folder), "--engine", "torch", "--prefill", "cpu", "--decode", "cpu", "-o", "json")
    fields = {one["field"]: one for one in json.loads(result.stdout)["fields"]}
    assert fields["tokenizer_digest"]["outcome"] == "equal"
    assert "no .safetensors file" in fields["model_digest"]["reason"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), ["prefill: which model?", "`--model`"]),
        (("--engine", VLLM, "--prefill", "h100", "--decode", "h100"), ["which model?"]),
        (("--model", "/nowhere/config.json", "--engine", VLLM), ["/nowhere/config.json", "on this machine"]),
        (("--model", str(CONFIG), "--engine", "sglang 0.5"), ["no engine 'sglang'", "torch, vllm"]),
        (("--model", str(CONFIG)), ["which engine"]),
        (("--model", str(CONFIG), "--engine", VLLM, "--prefill", "h1000"), ["h1000", "near it: h100", "gpu-kinds"]),
        (("--model", str(CONFIG), "--engine", VLLM, "--decode", "abacus"), ["--decode abacus", "gpu-kinds"]),
        (("--model", str(CONFIG), "--engine", VLLM, "--decode-args", "-tp two"), ["tensor-parallel-size", "'two'"]),
        (("--model", str(CONFIG), "--engine", VLLM, "--decode-args", "--dtype fp5"), ["--dtype", "'fp5'"]),
        (("--model", str(CONFIG), "--engine", VLLM, "--decode-args", "--kv-transfer-config {x"), ["not JSON"]),
        (("--model", str(CONFIG), "--engine", VLLM, "--decode-args", "--hf-overrides 'x"), ["No closing quotation"]),
        (("--model", str(CONFIG), "--engine", "torch", "--decode-args", "--dtype int8"), ["unknown dtype 'int8'"]),
        (
            ("--model", str(CONFIG), "--engine", "torch", "--decode-args", "--dtpye bfloat16"),
            ["`--dtpye`", "`--dtype`"],
        ),
        (
            ("--model", str(CONFIG), "--engine", "torch", "--decode-args", "-tp 2"),
            ["no option `--tensor-parallel-size`"],
        ),
        (("--model", str(CONFIG), "--engine", "torch", "--prefill-args", "--config d.json"), ["prefill", "`--config`"]),
        (
            ("--model", str(CONFIG), "--engine", "torch", "--decode-args", "--dtype float16 --model.dtype float32"),
            ["`--dtype`", "'float16' and 'float32'"],
        ),
    ],
)
def test_bad_input_is_a_usage_error_that_names_it(argv: tuple[str, ...], words: list[str]) -> None:
    with pytest.raises(UsageError) as failure:
        run(*argv)
    for word in words:
        assert word in failure.value.render()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", ["mapping"]),
        ("prefill: {}\n", ["no `decode` mapping"]),
        ("prefill: {}\ndecode: {}\nmodl: x\n", ["unknown key 'modl'", "model, config"]),
        ("prefill: {gpus: 2}\ndecode: {}\n", ["`prefill`", "'gpus'"]),
        ("config: {}\nengine: torch\nprefill: {}\ndecode: {}\n", ["num_attention_heads"]),
        ("prefill: {env: 3, engine: torch, config: {}}\ndecode: {}\n", ["`env`"]),
        ("prefill: {gpu: [h100], engine: torch, config: {}}\ndecode: {}\n", ["`gpu` must be text"]),
        ("prefill: [\n", ["cannot read"]),
        ("config: CONFIG\nengine: torch\nweights: WWW\nprefill: {}\ndecode: {}\n", ["model_digest", "128"]),
        ("config: CONFIG\nengine: vllm\nargs: -tp 70000\nprefill: {}\ndecode: {}\n", ["tp_size", "65535"]),
        ("case: x\npairs: {}\n", ["unknown key 'case'"]),
        ("case: x\npair: {prefill: {}}\nother: 1\n", ["unknown key 'other' beside `pair`", "case, report"]),
    ],
)
def test_a_bad_file_is_a_usage_error_that_names_it(text: str, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "pair.yml"
    file.write_text(text.replace("CONFIG", str(CONFIG)).replace("WWW", "w" * 200), encoding="utf-8")
    with pytest.raises(UsageError) as failure:
        run(str(file))
    for word in words:
        assert word in failure.value.render()


def test_a_file_and_options_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a FILE describes the pair alone"):
        run(str(tmp_path / "pair.yml"), "--prefill", "h100")


def test_fail_on_warn_makes_a_report_exit_1(tmp_path: Path) -> None:
    file = tmp_path / "pair.yml"
    args = '--kv-transfer-config \'{"kv_connector": "NixlConnector"}\''
    described: dict[str, Any] = {
        "config": str(CONFIG),
        "revision": "0e9e39f249a16976918f6564b8830bc894c89659",
        "engine": VLLM,
        "nixl": "1.3.1",
        "args": args,
        "prefill": {"gpu": "h100"},
        "decode": {"gpu": "h100"},
    }
    file.write_text(json.dumps(described), encoding="utf-8")
    assert run(str(file)).exit_code == 0
    assert run(str(file), "--fail-on", "warn").exit_code == 1


def test_a_pasted_command_line_is_read_as_a_shell_would() -> None:
    command = parse_command(
        "CUDA_VISIBLE_DEVICES=0,1 VLLM_NIXL_SIDE_CHANNEL_HOST=10.0.0.1 \\\n  vllm serve /models/x --tensor_parallel_size=2 "
        "--enforce-eager --kv-transfer-config ’{“kv_connector”: “NixlConnector”}’ -dp 2 > serve.log 2>&1 &"
    )
    assert command.env == {"CUDA_VISIBLE_DEVICES": "0,1", "VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.1"}
    assert command.model == "/models/x"
    assert dict(command.options) == {
        "tensor-parallel-size": "2",
        "enforce-eager": "true",
        "kv-transfer-config": '{"kv_connector": "NixlConnector"}',
        "data-parallel-size": "2",
    }


def test_dotted_options_join_their_json_object() -> None:
    options = parse_command("--attention-config.backend FLASHINFER --hf-overrides.rope_scaling.factor 2").options
    assert option_json(options, "attention-config") == {"backend": "FLASHINFER"}
    assert option_json(options, "hf-overrides") == {"rope_scaling": {"factor": 2}}
    with pytest.raises(DescriptionError, match="not an object"):
        option_json({"x": '{"a": 1}', "x.a.b": "2"}, "x")


def test_the_bundled_engine_s_defaults_are_those_of_its_configuration() -> None:
    from pdserve.config import DecodeConfig, ModelConfig

    assert ModelConfig.model_fields["dtype"].default == DEFAULT_DTYPE
    assert DecodeConfig.model_fields["block_tokens"].default == DEFAULT_BLOCK_TOKENS


def test_the_bundled_engine_s_options_are_the_keys_of_its_configuration() -> None:
    from pydantic import BaseModel

    from pdserve.config import DecodeConfig, PrefillConfig

    def leaves(model: type[BaseModel], before: str = "") -> Iterator[str]:
        for name, field in model.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from leaves(inner, f"{before}{name}.")
            else:
                yield before + name

    for name in (*leaves(PrefillConfig), *leaves(DecodeConfig)):
        assert canonical_option(name) in KNOWN_OPTIONS, (
            f"does `{name}` matter to KV? pdchecks.pair.bundled says which do"
        )


@pytest.mark.parametrize("spelling", ["--model.dtype float16", "--dtype float16", "--model.dtype=float16"])
def test_an_option_of_the_bundled_engine_counts_in_the_file_s_spelling_too(spelling: str) -> None:
    result = run(
        "--model", str(CONFIG), "--engine", "torch", "--prefill", "cpu", "--decode", "cpu", "--decode-args", spelling
    )
    assert result.exit_code == 1
    assert "FATAL        dtype: prefill float32, decode float16" in result.stdout


@pytest.mark.parametrize(
    ("field", "prefill", "decode"),
    [
        ("decode-context-parallel-size", "-tp 2 -dcp 2", "-tp 2"),
        ("prefill-context-parallel-size", "--prefill-context-parallel-size 2", ""),
        ("pipeline-parallel-size", "-pp 2", ""),
        ("hf-config-path", "", "--hf-config-path /x"),
        ("load-format", "--load-format dummy", "--load-format auto"),
        ("dtpye", "--dtpye float16", ""),
        ("attention-config", "-ac.use_x true", "-ac.backend FLASH_ATTN"),
        ("hf-overrides", "--hf-overrides.rms_norm_eps 1e-3", ""),
        ("config", "--config a.yaml", "--config a.yaml"),
    ],
)
def test_what_was_said_and_not_read_is_unknown_and_never_equal(field: str, prefill: str, decode: str) -> None:
    one = ("--prefill", "h100", "--decode", "h100", "--model", str(CONFIG), "--engine", VLLM, "-o", "json")
    result = run(*one, "--prefill-args", prefill, "--decode-args", decode)
    lines = {line["field"]: line for line in json.loads(result.stdout)["fields"]}
    assert lines[field]["outcome"] == "unknown" and "was not read" in lines[field]["reason"]
    assert ("paste" in lines[field]["reason"]) is (field == "config")
    assert result.exit_code == 3


def test_what_cannot_matter_to_kv_may_differ() -> None:
    harmless = "--port 1 --host 0.0.0.0 --gpu-memory-utilization 0.5 --max-num-seqs 9 --no-enable-prefix-caching"
    one = ("--prefill", "h100", "--decode", "h100", "--model", str(CONFIG), "--engine", VLLM, "-o", "json")
    plain, told = (json.loads(run(*one, "--prefill-args", args).stdout)["fields"] for args in ("-tp 1", harmless))
    assert plain == told


def test_a_release_newer_than_any_that_was_read_is_not_judged_as_one_that_was() -> None:
    result = usual("--engine", "vllm 9.9.9")
    assert result.exit_code == 3
    assert "UNKNOWN      vllm.version: prefill 9.9.9, decode 9.9.9" in result.stdout
    assert "the rules were read from vLLM 0.14 to 0.33" in " ".join(result.stdout.split())


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.3-70b", "qwen2.5-7b", "qwen3-32b"])
def test_the_static_record_has_the_rope_that_the_engine_announces(name: str, tmp_path: Path) -> None:
    from pdserve.architecture import read_architecture
    from pdwire.kvmodel import read_kv_model

    config = json.loads(CONFIG.with_name(f"{name}.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    live = {key.replace("rope_theta", "theta"): value for key, value in read_architecture(tmp_path).rope.items()}
    assert dict(read_kv_model(config).rope) == live
