use super::*;
use crate::sample::sample;

#[test]
fn a_whole_run() {
    insta::assert_snapshot!(run(
        &sample(),
        Some("runs/q32-chat-1130"),
        0,
        Style::plain()
    ));
}
