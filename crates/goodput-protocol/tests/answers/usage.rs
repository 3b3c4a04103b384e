//! What is believed of a `usage`, and what is said of one that is not.

use goodput_protocol::StreamEnd;
use goodput_record::{TokenCount, UsageReport};

use crate::outcomes::stream;

/// The end of an answer of two token events with this usage.
fn end(usage: &str) -> StreamEnd {
    let event = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
    let last = format!(
        r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],"usage":{usage}}}"#
    );
    stream(&[event, event, &last, "[DONE]"]).end
}

#[test]
fn a_usage_that_may_be_true_is_believed() {
    let told = end(
        r#"{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}}"#,
    );
    assert_eq!(told.usage, UsageReport::Plausible);
    assert_eq!(told.output_tokens, Some(TokenCount::Usage(2)));
    assert_eq!((told.input_tokens, told.cached_tokens), (Some(9), Some(9)));
    let none = end("null");
    assert_eq!(none.usage, UsageReport::Absent);
    assert_eq!(none.output_tokens, Some(TokenCount::AtLeast(2)));
}

#[test]
fn fewer_tokens_than_events_are_not_believed_and_told() {
    for (said, told) in [(1, 1), (0, 0)] {
        let end = end(&format!(
            r#"{{"prompt_tokens":9,"completion_tokens":{said}}}"#
        ));
        assert_eq!(end.usage, UsageReport::BelowEvents(told));
        assert_eq!(end.output_tokens, Some(TokenCount::AtLeast(2)));
    }
}

#[test]
fn what_is_no_count_is_left_out_and_said_to_be_none() {
    let odd = |usage: &str| {
        let end = end(usage);
        assert_eq!(end.usage, UsageReport::NotACount, "{usage}");
        end
    };
    // A prompt of no tokens would pull the median of inputs to 0.
    let zero = odd(r#"{"prompt_tokens":0,"completion_tokens":2}"#);
    assert_eq!(zero.input_tokens, None);
    assert_eq!(zero.output_tokens, Some(TokenCount::Usage(2)));
    for number in ["-5", "1e12", "4294967296", "2.5", "\"two\""] {
        let end = odd(&format!(
            r#"{{"prompt_tokens":9,"completion_tokens":{number}}}"#
        ));
        assert_eq!(end.output_tokens, Some(TokenCount::AtLeast(2)), "{number}");
        assert_eq!(end.input_tokens, Some(9));
    }
    let cached = odd(
        r#"{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":10}}"#,
    );
    assert_eq!(cached.cached_tokens, None);
}
