//! The scanner against the full parser: where it answers, it answers the same.

use proptest::prelude::*;

use super::*;

/// Both ways agree, or the scanner leaves it to the full parser.
fn agree(data: &[u8]) -> bool {
    let Some(mut scanned) = scan(data) else {
        return false;
    };
    let parsed = parse(data).unwrap_or_else(|error| {
        panic!(
            "only the scanner reads {}: {error}",
            String::from_utf8_lossy(data)
        )
    });
    // The scanner leaves the names to the full parser, by design.
    scanned.model.clone_from(&parsed.model);
    scanned.fingerprint.clone_from(&parsed.fingerprint);
    assert_eq!(scanned, parsed, "{}", String::from_utf8_lossy(data));
    true
}

/// Chunks as engines send them while they generate: the fast way has to take them all.
const USUAL: &[&str] = &[
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795999414,"model":"tiny-llama","choices":[{"index":0,"delta":{"content":" numb"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795999414,"model":"tiny-llama","choices":[{"index":0,"delta":{"content":"\n\"\u00e9\ud83d"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":24,"total_tokens":26,"completion_tokens":2,"completion_tokens_details":null}}"#,
    r#"{"choices":[{"finish_reason":null,"index":1,"delta":{"content":" rivers"}}],"created":1795998558,"id":"chatcmpl-A","model":"gemma-3-270m","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}"#,
    r#"{"choices":[{"text":" sea","index":0,"logprobs":null,"finish_reason":null}],"created":1795998754,"model":"gemma-3-270m","system_fingerprint":"b0-unknown","object":"text_completion","id":"chatcmpl-D"}"#,
    r#"{"id":"cmpl-8","object":"text_completion","created":1795999422,"model":"tiny-llama","choices":[{"index":0,"text":" the","logprobs":{"text_offset":[7],"token_logprobs":[-8.317764282226562],"tokens":[" the"],"top_logprobs":[{" the":-8.3e-1," begin":-8.0}]},"finish_reason":"length","stop_reason":null}]}"#,
    r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"on coeff","reasoning":" 1 common"},"logprobs":null,"finish_reason":null}]}"#,
    r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"id":"x","type":"function","index":0,"function":{"name":"get_weather"}}]},"logprobs":null,"finish_reason":null}]}"#,
    r#"{"choices": [ {"index": 0, "delta": {"role": "assistant", "reasoning_content": "Let"}, "finish_reason": ""} ], "usage": null}"#,
    r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":24,"total_tokens":48,"completion_tokens":24,"prompt_tokens_details":{"cached_tokens":3,"created_cache_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}},"system_fingerprint":"v"}"#,
];

/// Chunks of shapes that only the full parser knows, or that nobody should accept.
const ODD: &[&str] = &[
    r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b"}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"a"}},{"function":{"name":"b"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"},{"text":"b"}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":"a","reasoning_content":"a"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"refusal":"no"}}]}"#,
    r#"{"choices":[],"error":{"message":"x"}}"#,
    r#"{"choices":[],"usage":{"completion_tokens":-1}}"#,
    r#"{"choices":[],"choices":[]}"#,
    r#"{"choices":[],"x":01}"#,
    r#"{"choices":[],"x":"\ud8"}"#,
    r#"{"choices":[]"#,
    r#"{"choices":[]}}"#,
    r#"{"object":"error","message":"gone"}"#,
    r#"{"choices":[{"index":01}]}"#,
    r#"{"choices":[{"message":3}]}"#,
    r#"{"choices":[],"usage":{"reasoning_tokens":4,"prompt_cache_hit_tokens":5}}"#,
];

#[test]
fn the_scanner_reads_every_usual_chunk() {
    for chunk in USUAL {
        assert!(agree(chunk.as_bytes()), "{chunk}");
    }
}

#[test]
fn the_scanner_leaves_odd_chunks_to_the_full_parser() {
    for chunk in ODD {
        assert!(scan(chunk.as_bytes()).is_none(), "{chunk}");
    }
}

#[test]
fn the_full_parser_reads_odd_chunks() {
    let text = |chunk: &str, of: fn(&Choice<'_>) -> Text<'static>| {
        let chunk = parse(chunk.as_bytes())
            .unwrap()
            .choice
            .map(|choice| of(&choice));
        let mut scratch = Vec::new();
        String::from_utf8(chunk.unwrap().decode(&mut scratch).to_vec()).unwrap()
    };
    assert_eq!(text(ODD[2], |c| owned(&c.content)), "ab");
    assert_eq!(
        text(ODD[3], |c| owned(&c.reasoning)),
        "a",
        "the same text under two names"
    );
    assert_eq!(text(ODD[4], |c| owned(&c.content)), "no");
    assert_eq!(parse(ODD[0].as_bytes()).unwrap().more_choices.len(), 1);
    let tools = parse(ODD[1].as_bytes()).unwrap().choice.unwrap().more_tools;
    assert_eq!(tools.len(), 1);
    assert_eq!(
        parse(ODD[5].as_bytes()).unwrap().error.as_deref(),
        Some("x")
    );
    assert_eq!(
        parse(ODD[6].as_bytes()).unwrap().usage.unwrap().output,
        None
    );
    assert_eq!(
        parse(ODD[12].as_bytes()).unwrap().error.as_deref(),
        Some("gone")
    );
    let usage = parse(ODD[15].as_bytes()).unwrap().usage.unwrap();
    assert_eq!((usage.reasoning, usage.cached), (Some(4), Some(5)));
    for broken in ODD[7..12].iter().chain(&ODD[13..15]) {
        assert!(parse(broken.as_bytes()).is_err(), "{broken}");
    }
}

fn owned(text: &Text<'_>) -> Text<'static> {
    Text::Owned(text.decode(&mut Vec::new()).to_vec())
}

/// Any JSON value, as text.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("[]".to_owned()),
        any::<u32>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:e}")),
        string(),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec((key(), inner), 0..4).prop_map(|f| object(&f)),
        ]
    })
}

/// A JSON string, escapes included.
fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap().trim_matches('"').to_owned()),
        1 => any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
        1 => prop::sample::select(vec!["\\n", "\\/", "\\\\", "\\\"", "\\ud83d\\ude00", "", "stop", "abort"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

const KEYS: &[&str] = &[
    "choices",
    "usage",
    "error",
    "timings",
    "message",
    "model",
    "object",
    "index",
    "delta",
    "text",
    "finish_reason",
    "content",
    "reasoning",
    "reasoning_content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "refusal",
    "function_call",
    "completion_tokens",
    "prompt_tokens",
    "logprobs",
    "prompt_tokens_details",
    "completion_tokens_details",
    "cached_tokens",
    "reasoning_tokens",
    "id",
    "eval_count",
    "detail",
];

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(KEYS).prop_map(|key| format!("\"{key}\"")),
        1 => string(),
    ]
}

fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}:{v}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// An object whose known members are mostly of the right kind.
fn fields(known: Vec<(&'static str, BoxedStrategy<String>)>) -> BoxedStrategy<String> {
    let known = known.into_iter().map(|(name, value)| {
        let member = value.prop_map(move |value| (format!("\"{name}\""), value));
        prop::option::of(member).boxed()
    });
    let known: Vec<_> = known.collect();
    let odd = prop::option::weighted(0.2, (key(), value()));
    (known, odd, any::<bool>())
        .prop_map(|(known, odd, reversed)| {
            let mut all: Vec<_> = known.into_iter().flatten().chain(odd).collect();
            if reversed {
                all.reverse();
            }
            object(&all)
        })
        .boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![3 => string(), 1 => Just("null".to_owned())].boxed()
}

fn count() -> BoxedStrategy<String> {
    prop_oneof![4 => (0_u32..100_000).prop_map(|n| n.to_string()), 1 => value()].boxed()
}

fn list(element: BoxedStrategy<String>) -> BoxedStrategy<String> {
    prop::collection::vec(element, 0..3)
        .prop_map(|v| format!("[{}]", v.join(", ")))
        .boxed()
}

fn chunk() -> BoxedStrategy<String> {
    let function = fields(vec![("name", text()), ("arguments", text())]);
    let call = fields(vec![("index", count()), ("function", function)]);
    let delta = fields(vec![
        ("content", text()),
        ("reasoning", text()),
        ("tool_calls", list(call)),
    ]);
    let choice = fields(vec![
        ("index", count()),
        ("delta", delta),
        ("finish_reason", text()),
    ]);
    let details = fields(vec![("cached_tokens", count())]);
    let usage = fields(vec![
        ("completion_tokens", count()),
        ("prompt_tokens", count()),
        ("prompt_tokens_details", details),
    ]);
    fields(vec![
        ("id", text()),
        ("model", text()),
        ("choices", list(choice)),
        ("usage", usage),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn whatever_the_scanner_reads_the_full_parser_reads_too(chunk in chunk()) {
        agree(chunk.as_bytes());
    }

    #[test]
    fn changed_bytes_do_not_make_the_two_differ(
        chunk in prop::sample::select(USUAL),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = chunk.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        agree(&bytes);
        agree(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn an_unescaped_string_is_what_serde_makes_of_it(text in any::<String>()) {
        let json = serde_json::to_string(&text).unwrap();
        let inside = &json.as_bytes()[1..json.len() - 1];
        prop_assert_eq!(Text::Escaped(inside), Text::Plain(text.as_bytes()));
    }
}
