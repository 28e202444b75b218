"""Launches of YAML files: every form with the flags, places and resolution it really has."""

from __future__ import annotations

import textwrap

import pytest

from auditor.errors import Unreadable
from auditor.model import Launch
from auditor.serve.scripts.manifest import read_config, read_manifest


def launches(text: str, files: dict[str, str] | None = None) -> list[Launch]:
    known = files or {}

    def read(path: str) -> bytes | None:
        return known[path].encode() if path in known else None

    found, skipped = read_manifest(textwrap.dedent(text).encode(), "d/f.yaml", read)
    assert skipped == []
    return found


def flags(launch: Launch) -> list[tuple[str, str | None, int, int, bool]]:
    return [(a.flag, a.value, a.line, a.column, a.resolved) for a in launch.arguments]


def environment(launch: Launch) -> dict[str, tuple[str, int, bool]]:
    return {v.name: (v.value, v.line, v.resolved) for v in launch.environment}


def test_compose_joins_entry_point_and_a_command_over_several_lines():
    (launch,) = launches("""\
        services:
          llm:
            image: lmsysorg/sglang:v0.5.9
            entrypoint: python3 -m sglang.launch_server
            command: --model-path org/model
              --tool-call-parser hermes
              --port 30000
        """)
    assert flags(launch) == [
        ("--model-path", "org/model", 5, 14, True),
        ("--tool-call-parser", "hermes", 6, 7, True),
        ("--port", "30000", 7, 7, True),
    ]
    assert launch.line == 4
    assert launch.program == "server"
    assert launch.model == "org/model"
    assert [(pin.text, pin.line, pin.column) for pin in launch.pins] == [
        ("lmsysorg/sglang:v0.5.9", 3, 12)
    ]


def test_compose_expands_defaults_and_the_file_beside_it():
    (launch,) = launches(
        """\
        services:
          llm:
            command:
              - sglang
              - serve
              - --model-path
              - ${MODEL:-org/small}
              - --tp=${TP}
              - "--port"
              - "${PORT:?needed}"
              - --served-model-name
              - a$$b
        """,
        {"d/.env": "TP=4\n"},
    )
    assert flags(launch) == [
        ("--model-path", "org/small", 6, 9, True),
        ("--tp", "4", 8, 9, True),
        ("--port", "${PORT:?needed}", 9, 10, False),
        ("--served-model-name", "a$b", 11, 9, True),
    ]
    assert launch.unresolved == 1


def test_compose_environment_as_list_as_map_and_from_a_file():
    first, second = launches(
        """\
        services:
          a:
            command: ["sglang", "serve", "org/m"]
            environment:
              - SGLANG_A=1
              - HF_TOKEN
            env_file: a.env
          b:
            command: ["sglang", "serve", "org/m"]
            environment:
              SGLANG_B: "yes"
              SGLANG_C:
        """,
        {"d/a.env": "# nothing\nexport SGLANG_D='x y'\n"},
    )
    assert environment(first) == {
        "SGLANG_A": ("1", 5, True),
        "HF_TOKEN": ("$HF_TOKEN", 6, False),
        "SGLANG_D": ("x y", 2, True),
    }
    assert {v.name: v.path for v in first.environment}["SGLANG_D"] == "d/a.env"
    assert environment(second) == {
        "SGLANG_B": ("yes", 11, True),
        "SGLANG_C": ("$SGLANG_C", 12, False),
    }


def test_compose_anchors_and_merge_keys_and_mounts():
    found = launches("""\
        x-common: &common
          image: sgl:1
          working_dir: /srv
          volumes:
            - ./templates:/templates:ro
            - ${HOME:-/root}/models:/models
        services:
          p:
            <<: *common
            command: python -m sglang.launch_server --model-path /models/a
          q:
            <<: *common
            image: sgl:2
            command: python -m sglang.launch_server --model-path /models/b
        """)
    assert [launch.model for launch in found] == ["/models/a", "/models/b"]
    assert [launch.pins[0].text for launch in found] == ["sgl:1", "sgl:2"]
    assert [launch.folder for launch in found] == ["/srv", "/srv"]
    assert found[0].mounts == (
        ("/templates", "./templates"),
        ("/models", "${HOME:-/root}/models"),
    )


def test_a_command_that_only_a_template_of_compose_holds_counts_once():
    found = launches("""\
        x-server: &server
          command: sglang serve org/m --tp 2
        services:
          a: *server
        """)
    assert [(launch.line, launch.model) for launch in found] == [(2, "org/m")]


def test_compose_block_for_bash_keeps_the_lines_of_the_script():
    (launch,) = launches("""\
        services:
          llm:
            entrypoint: ["/bin/bash", "-c"]
            command:
              - |
                set -e
                export SGLANG_X=$$Y
                exec python3 -m sglang.launch_server \\
                  --model-path /m \\
                  --reasoning-parser qwen3
        """)
    assert flags(launch) == [
        ("--model-path", "/m", 9, 11, True),
        ("--reasoning-parser", "qwen3", 10, 11, True),
    ]
    assert launch.line == 8
    assert launch.form == "yaml"
    assert environment(launch)["SGLANG_X"] == ("$Y", 7, False)


def test_kubernetes_lists_with_references_and_a_value_from_elsewhere():
    (launch,) = launches("""\
        apiVersion: apps/v1
        kind: Deployment
        spec:
          template:
            spec:
              volumes:
                - name: m
                  hostPath: {path: /data/m}
              containers:
                - name: c
                  image: lmsysorg/sglang:latest
                  workingDir: /w
                  command: [python3, -m, sglang.launch_server]
                  args:
                    - --model-path
                    - /models/$(NAME)
                    # left out:
                    # - --tp
                    - --host
                    - $(POD_IP)
                    - --enable-metrics
                  env:
                    - name: NAME
                      value: llama
                    - name: POD_IP
                      valueFrom: {fieldRef: {fieldPath: status.podIP}}
                    - name: SGLANG_PATH
                      value: /x/$(NAME)
                  volumeMounts:
                    - name: m
                      mountPath: /models
                    - name: unknown
                      mountPath: /y
        """)
    assert flags(launch) == [
        ("--model-path", "/models/llama", 15, 15, True),
        ("--host", "$(POD_IP)", 19, 15, False),
        ("--enable-metrics", None, 21, 15, True),
    ]
    assert launch.folder == "/w"
    assert launch.mounts == (("/models", "/data/m"),)
    assert environment(launch) == {
        "NAME": ("llama", 23, True),
        "POD_IP": ("$POD_IP", 25, False),
        "SGLANG_PATH": ("/x/llama", 27, True),
    }


def test_leader_worker_set_gives_a_launch_for_each_role():
    prefill, decode = launches("""\
        kind: LeaderWorkerSet
        spec:
          leaderWorkerTemplate:
            leaderTemplate:
              spec:
                containers:
                  - command:
                      - sh
                      - -c
                      - >-
                        python -m sglang.launch_server --model-path /m
                        --disaggregation-mode prefill
            workerTemplate:
              spec:
                containers:
                  - args: [--model-path, /m, --disaggregation-mode, decode]
                    command: [python3, -m, sglang.launch_server]
        """)
    assert prefill.role == "prefill"
    assert flags(prefill) == [
        ("--model-path", "/m", 11, 48, True),
        ("--disaggregation-mode", "prefill", 12, 17, True),
    ]
    assert decode.role == "decode"
    assert decode.line == 17


def test_a_workflow_has_the_variables_of_all_its_levels_and_unknown_expressions():
    (launch,) = launches("""\
        on: push
        env:
          TP: 2
        jobs:
          serve:
            env:
              MODEL: org/m
            steps:
              - name: start
                env:
                  SGLANG_Z: ${{ inputs.z }}
                run: |
                  pip install sglang
                  sglang serve --model-path $MODEL --tp $TP --port ${{ inputs.port }} &
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 14, 24, True),
        ("--tp", "2", 14, 44, True),
        ("--port", "${{ inputs.port }}", 14, 53, False),
    ]
    assert environment(launch)["SGLANG_Z"] == ("${{ inputs.z }}", 11, False)


def test_prose_and_help_texts_are_no_launches():
    assert (
        launches("""\
        jobs:
          a:
            steps:
              - run: python3 -m sglang.launch_server --help
              - with:
                  prompt: |
                    For example:
                    python3 -m sglang.launch_server --model-path x
        """)
        == []
    )


def test_helm_template_stays_unrendered():
    (launch,) = launches("""\
        {{- if .Values.enabled }}
        kind: Deployment
        metadata:
          name: {{ include "x.name" . }}
          labels:
            {{- include "x.labels" . | nindent 4 }}
        spec:
          containers:
            - image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
              command: ["python3", "-m", "sglang.launch_server"]
              args:
                - --model-path={{ .Values.model }}
                - --tool-call-parser
                - hermes
                {{- if .Values.tp }}
                - --tp
                - {{ .Values.tp | quote }}
                {{- end }}
        {{- end }}
        """)
    assert flags(launch) == [
        ("--model-path", "{{ .Values.model }}", 12, 11, False),
        ("--tool-call-parser", "hermes", 13, 11, True),
        ("--tp", "{{ .Values.tp | quote }}", 16, 11, False),
    ]
    assert [a.conditional for a in launch.arguments] == [False, False, True]
    assert launch.pins[0].text == "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
    assert launch.model is None


def test_control_lines_of_a_template_do_not_end_a_continued_command():
    (launch,) = launches("""\
        containers:
          - command:
              - bash
              - -c
              - |
                sglang serve org/m \\
                  {{- if .Values.lora }}
                  --enable-lora \\
                  {{- end }}
                  --port {{ .Values.port }}
        """)
    assert [(flag, line) for flag, _, line, _, _ in flags(launch)] == [
        ("--model-path", 6),
        ("--enable-lora", 8),
        ("--port", 10),
    ]
    assert [a.conditional for a in launch.arguments] == [False, True, False]


def test_helm_values_with_arguments_for_the_image():
    (launch,) = launches("""\
        image:
          repository: lmsysorg/sglang
          tag: v0.5.9
        extraArgs:
          - --tool-call-parser=qwen25
          - "--tp 2"
        """)
    assert flags(launch) == [
        ("--tool-call-parser", "qwen25", 5, 5, True),
        ("--tp", "2", 6, 6, True),
    ]
    assert launch.command == "extraArgs"
    assert launch.pins[0].text == "lmsysorg/sglang:v0.5.9"


def test_arguments_of_another_image_are_not_the_servers():
    found = launches("""\
        # not sglang
        image: vllm/vllm-openai:latest
        args: ["--model", "org/m", "--tool-call-parser", "hermes"]
        """)
    assert found == []


def test_recipe_has_a_launch_for_each_role_with_its_environment():
    prefill, decode = launches("""\
        model:
          path: org/m
          container: lmsysorg/sglang:v0.5.11
        backend:
          prefill_environment:
            SGLANG_P: "1"
          decode_environment:
            SGLANG_D: "2"
          sglang_config:
            prefill:
              served-model-name: m
              trust-remote-code: true
              disaggregation-mode: prefill
              enable-dp-attention: false
              load-balance-method: null
              cuda-graph-bs: [1, 2, 4]
              kv-cache-dtype: fp8_e4m3
              kv-cache-dtype: auto
            decode:
              tp_size: 4
        """)
    assert flags(prefill) == [
        ("--served-model-name", "m", 11, 7, True),
        ("--trust-remote-code", None, 12, 7, True),
        ("--disaggregation-mode", "prefill", 13, 7, True),
        ("--enable-dp-attention", "false", 14, 7, True),
        ("--cuda-graph-bs", "1 2 4", 16, 7, True),
        ("--kv-cache-dtype", "fp8_e4m3", 17, 7, True),
        ("--kv-cache-dtype", "auto", 18, 7, True),
    ]
    assert environment(prefill) == {"SGLANG_P": ("1", 6, True)}
    assert (prefill.role, prefill.form, prefill.line) == ("prefill", "recipe", 11)
    assert prefill.command == "backend.sglang_config.prefill"
    assert prefill.model == "org/m"
    assert prefill.pins[0].text == "lmsysorg/sglang:v0.5.11"
    assert flags(decode) == [("--tp_size", "4", 20, 7, True)]
    assert environment(decode) == {"SGLANG_D": ("2", 8, True)}
    assert decode.role == "decode"


def test_alternatives_of_an_override_are_no_single_value():
    base, override = launches("""\
        base:
          sglang_config:
            decode: {mem-fraction-static: 0.8}
        override_low:
          sglang_config:
            decode:
              max-running-requests: [1, 2]
              mem-fraction-static: 0.9
        """)
    assert [a.conditional for a in base.arguments] == [False]
    assert [(a.value, a.resolved, a.conditional) for a in override.arguments] == [
        ("1 2", False, True),
        ("0.9", True, True),
    ]


def test_texts_of_flags_that_may_not_all_apply():
    (launch,) = launches("""\
        # read by start_sglang.sh
        some-model:
          base_flags: "--kv-cache-dtype fp8_e4m3 --attention-backend aiter"
          dp_flags: "--enable-dp-attention"
          note: "--unrelated"
        """)
    assert flags(launch)[:3] == [
        ("--kv-cache-dtype", "fp8_e4m3", 3, 16, True),
        ("--attention-backend", "aiter", 3, 42, True),
        ("--enable-dp-attention", None, 4, 14, True),
    ]
    assert all(argument.conditional for argument in launch.arguments)
    assert launch.command == "some-model"


def test_a_file_of_flags_without_any_script():
    (launch,) = launches("""\
        model-path: org/m
        tp: 4
        mem-fraction-static: 0.8
        trust-remote-code: yes
        chat-template: '{"a": 1}'
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 1, 1, True),
        ("--tp", "4", 2, 1, True),
        ("--mem-fraction-static", "0.8", 3, 1, True),
        ("--trust-remote-code", None, 4, 1, True),
        ("--chat-template", '{"a": 1}', 5, 1, True),
    ]
    assert launch.model == "org/m"


@pytest.mark.parametrize(
    "text",
    [
        "model_path: a\nquantization: fp8\ntokenizer_path: b\nlearning_rate: 1e-4\nport: 1\n",
        "# sglang\nmodel: {name: a, dtype: bf16}\ntrainer: {max_total_tokens: 5, lr: 1}\n",
        "model: m\ntrust-remote-code: true\nserved-model-name: m\ntool-call-parser: x\n",
        "sglang:\n  image: lmsysorg/sglang:v1\n  runner: b200\n",
        "- a\n- b\n",
        "",
    ],
)
def test_other_settings_are_not_taken_for_the_servers(text):
    assert launches(text) == []


def test_config_file_of_the_server():
    config = read_config(b"model-path: org/m\ntp_size: 2\nenable-metrics: true\n", "c.yaml")
    assert config is not None
    assert flags(config) == [
        ("--model-path", "org/m", 1, 1, True),
        ("--tp_size", "2", 2, 1, True),
        ("--enable-metrics", None, 3, 1, True),
    ]
    assert read_config(b"", "c.yaml") is None
    with pytest.raises(Unreadable, match="no mapping of flags"):
        read_config(b"- a\n", "c.yaml")


def test_task_files_with_commands_for_each_replica():
    prefill, decode = launches("""\
        type: service
        env:
          - HF_TOKEN
          - MODEL=org/m
        replicas:
          - commands:
              - |
                python -m sglang.launch_server \\
                  --model-path $MODEL --disaggregation-mode prefill
          - commands:
              - pip install x
              - python -m sglang.launch_server --model-path $MODEL --disaggregation-mode decode
        """)
    assert [launch.role for launch in (prefill, decode)] == ["prefill", "decode"]
    assert [launch.model for launch in (prefill, decode)] == ["org/m", "org/m"]
    assert [flag[2:4] for flag in flags(prefill)] == [(9, 11), (9, 31)]
    assert [flag[2:4] for flag in flags(decode)] == [(12, 40), (12, 60)]


def test_files_within_a_file():
    script, config, values = launches("""\
        kind: ConfigMap
        data:
          start.sh: |
            #!/bin/bash
            python3 -m sglang.launch_server --model-path /m \\
              --tp 2
          README: |
            python3 -m sglang.launch_server --model-path /readme
          sglang.yaml: |
            model-path: /x
            tp: 8
        ---
        kind: Application
        helm:
          values: |
            extraArgs: ["--tp", "2", "--mem-fraction-static", "0.8"]
        """)
    assert flags(script) == [
        ("--model-path", "/m", 5, 37, True),
        ("--tp", "2", 6, 7, True),
    ]
    assert flags(config) == [("--model-path", "/x", 10, 5, True), ("--tp", "8", 11, 5, True)]
    assert flags(values) == [
        ("--tp", "2", 16, 18, True),
        ("--mem-fraction-static", "0.8", 16, 31, True),
    ]
    assert values.command == "helm.values.extraArgs"


def test_a_broken_file_within_a_file_is_told_and_the_rest_is_read():
    text = "data:\n  a.yaml: |\n    b: 'sglang\nrun: sglang serve org/m\n"
    found, skipped = read_manifest(text.encode(), "f.yaml", lambda _: None)
    assert [launch.model for launch in found] == ["org/m"]
    assert [s.path for s in skipped] == ["f.yaml"]
    assert skipped[0].reason.startswith("the text at line 2: no YAML")


def test_a_shell_within_a_folded_command():
    first, second = launches("""\
        services:
          a:
            command: >
              bash -c "pip install foo &&
              python3 -m sglang.launch_server --model-path /m --json '{\\"a\\": 1}'
              --tp 2"
          b:
            command: bash -lc 'exec sglang serve /m --tp ${TP:-4}'
        """)
    assert flags(first) == [
        ("--model-path", "/m", 5, 39, True),
        ("--json", '{"a": 1}', 5, 55, True),
        ("--tp", "2", 6, 7, True),
    ]
    assert first.line == 5
    assert flags(second) == [
        ("--model-path", "/m", 8, 42, True),
        ("--tp", "4", 8, 45, True),
    ]


def test_a_flag_and_its_value_in_one_item_are_one_word_of_a_command():
    (launch,) = launches("""\
        command: [python3, -m, sglang.launch_server]
        args:
          - --model-path /m
          - '--json-model-override-args={"a": 1}'
        """)
    assert flags(launch) == [("--json-model-override-args", '{"a": 1}', 4, 6, True)]
    assert [(word.text, word.line) for word in launch.words] == [
        ("--model-path /m", 3),
        ('--json-model-override-args={"a": 1}', 4),
    ]


def test_a_flag_and_its_value_in_one_item_are_two_where_the_program_is_not_known():
    (launch,) = launches("""\
        image: lmsysorg/sglang:latest
        args:
          - --trust-remote-code
          - --attention-backend fa3
        """)
    assert flags(launch) == [
        ("--trust-remote-code", None, 3, 5, True),
        ("--attention-backend", "fa3", 4, 5, True),
    ]


def test_other_programs_that_take_the_same_flags():
    (launch,) = launches("""\
        mainContainer:
          command: [python3, -m, dynamo.sglang]
          args: [--model-path, org/m, --disaggregation-mode, decode]
        """)
    assert (launch.program, launch.role, launch.model) == ("foreign", "decode", "org/m")


def test_a_mapping_named_for_sglang_needs_flags_of_its_own():
    (launch,) = launches("""\
        engine_kwargs:
          sglang:
            attention_backend: fa3
            mem_fraction_static: 0.5
          vllm:
            gpu_memory_utilization: 0.5
        """)
    assert [(a.flag, a.line) for a in launch.arguments] == [
        ("--attention_backend", 3),
        ("--mem_fraction_static", 4),
    ]
    assert launch.command == "engine_kwargs.sglang"


def test_tasks_of_ansible_with_their_templates():
    (launch,) = launches("""\
        - name: start
          ansible.builtin.shell: nohup sglang serve {{ model }} --tp {{ tp }} > log &
        """)
    assert flags(launch) == [
        ("--model-path", "{{ model }}", 2, 45, False),
        ("--tp", "{{ tp }}", 2, 57, False),
    ]


def test_columns_count_code_points_after_quotes_escapes_and_anchors():
    (launch,) = launches("""\
        ключ: &a ["sglang", "serve", 'org/m', "\\x2d-tp", &b '2', "--served-model-name", 'it''s']
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 1, 31, True),
        ("--tp", "2", 1, 40, True),
        ("--served-model-name", "it's", 1, 59, True),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [" * 500, "deep"),
        ("\n".join(" " * i + "k:" for i in range(300)), "deep"),
        ("sglang:\n\t- a: b\n", "no YAML: .*line 2"),
        ("a: 'b\n", "no YAML"),
        ("a: \x01\n", "no YAML"),
        ("k: " + "x" * (5 * 1024 * 1024), "larger than"),
        ("- x\n" * 400_000, "more than 300000 values"),
    ],
)
def test_what_is_no_yaml_or_out_of_bounds_is_told(text, reason):
    with pytest.raises(Unreadable, match=reason):
        read_manifest(text.encode(), "f.yaml", lambda _: None)


def test_a_bomb_of_aliases_is_told():
    levels = ["a0: &a0 [x, x]"]
    levels += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    levels.insert(0, "run: sglang serve org/m")
    found, skipped = read_manifest("\n".join(levels).encode(), "f.yaml", lambda _: None)
    assert [launch.model for launch in found] == ["org/m"]
    assert [s.reason for s in skipped] == [
        "aliases expand to more than 400000 values; read in part"
    ]


def test_a_bomb_of_merge_keys_ends():
    levels = ["a0: &a0 {k0: 1}"]
    levels += [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}], k{i}: 1}}" for i in range(1, 60)]
    assert read_manifest("\n".join(levels).encode(), "f.yaml", lambda _: None) == ([], [])


def test_an_alias_within_its_own_anchor_is_nothing():
    (launch,) = launches("a: &a [sglang, serve, org/m, *a]\n")
    assert launch.model == "org/m"
    assert launch.unresolved == 1
