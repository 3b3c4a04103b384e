//! Prompts are prose, of the asked length, and share no more than is planned.

use std::{
    collections::HashSet,
    convert::Infallible,
    fmt::Write as _,
    future::{Future, ready},
    num::NonZeroU32,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use goodput_record::Timestamp;
use goodput_workload::{Load, PlannedRequest, Role, Segment, Shard, Workload, WorkloadSpec};
use proptest::prelude::*;

use super::{
    CalibrationError, Corpus, CountedBy, Fit, PromptWriter, calibration_prompts, corpus::Closing,
};

/// A tokenizer of which a word is one token.
fn by_words(text: &str) -> u32 {
    u32::try_from(text.split_whitespace().count()).unwrap()
}

/// Something like byte pairs: long words are several tokens, and so is every mark.
fn by_pairs(text: &str) -> u32 {
    let word = |word: &str| {
        let letters = word.chars().filter(|c| !c.is_ascii_punctuation()).count();
        letters.div_ceil(6) + word.chars().filter(char::is_ascii_punctuation).count()
    };
    u32::try_from(text.split_whitespace().map(word).sum::<usize>()).unwrap()
}

fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing to wait for"),
    }
}

fn counted(count: fn(&str) -> u32) -> PromptWriter {
    let answer = |text: String| ready(Ok::<_, Infallible>(count(&text) + 2));
    let Ok(writer) = now(PromptWriter::counted(Corpus::prose(), answer));
    assert_eq!(writer.counted_by(), CountedBy::Tokenize);
    writer
}

fn calibrated(count: fn(&str) -> u32, overhead: u32) -> PromptWriter {
    let prompts = calibration_prompts(&Corpus::prose()).into_iter();
    let counts: Vec<_> = prompts
        .map(|prompt| {
            let tokens = count(&prompt.text) + overhead;
            (prompt, tokens)
        })
        .collect();
    PromptWriter::calibrated(Corpus::prose(), &counts).unwrap()
}

fn segment(key: u64, tokens: u32) -> Segment {
    Segment {
        key,
        tokens,
        role: Role::User,
    }
}

fn text(writer: &PromptWriter, key: u64, tokens: u32) -> String {
    let mut out = String::new();
    writer.write(&segment(key, tokens), &mut out);
    out
}

fn requests(spec: &str, count: usize) -> Vec<PlannedRequest> {
    let spec = Arc::new(WorkloadSpec::parse("test", spec).unwrap());
    let users = Load::Closed(NonZeroU32::new(4).unwrap());
    let mut workload = Workload::new(&spec, users, 3, Shard::WHOLE);
    let now = Timestamp::from_seconds(9.0);
    let mut requests = Vec::new();
    while requests.len() < count {
        let request = workload.take(now).unwrap();
        workload.ended(request.session, now);
        requests.push(request);
    }
    requests
}

#[test]
fn the_corpus_is_prose_of_many_sentences() {
    let corpus = Corpus::prose();
    assert!(corpus.sentences.len() > 200);
    let distinct: HashSet<_> = corpus.sentences.iter().collect();
    assert_eq!(distinct.len(), corpus.sentences.len());
    assert!(
        corpus
            .sentences
            .iter()
            .all(|s| s.ends_with('.') && by_words(s) <= 24)
    );
    for words in &corpus.openers {
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), 64);
    }
}

#[test]
fn counted_prompts_have_exactly_the_asked_length() {
    for count in [by_words as fn(&str) -> u32, by_pairs] {
        let writer = counted(count);
        let mut off = 0;
        for tokens in (1..200).chain([512, 1_020, 4_142, 30_000]) {
            let written = count(&text(&writer, u64::from(tokens) * 77, tokens));
            assert!(written.abs_diff(tokens) <= 1, "{written} for {tokens}");
            off += u32::from(written != tokens);
        }
        // A last word of two tokens cannot always be avoided.
        assert!(off <= 12, "{off}");
    }
}

/// What the server adds is told apart from the text, and lengths come out right on average.
#[test]
fn calibrated_prompts_have_the_asked_length_on_average() {
    let exact = calibrated(by_words, 8);
    assert!((exact.overhead().unwrap() - 8.0).abs() < 1e-6);
    assert_eq!(by_words(&text(&exact, 5, 333)), 333);
    let writer = calibrated(by_pairs, 25);
    assert!(
        (writer.overhead().unwrap() - 25.0).abs() < 6.0,
        "{:?}",
        writer.overhead()
    );
    let sum: u32 = (0..100).map(|key| by_pairs(&text(&writer, key, 255))).sum();
    assert!((f64::from(sum) / 25_500.0 - 1.0).abs() < 0.03, "{sum}");
    for key in 0..100 {
        let written = by_pairs(&text(&writer, key, 255));
        assert!(written.abs_diff(255) < 25, "{written}");
    }
}

#[test]
fn a_calibration_that_tells_nothing_is_refused() {
    let prompts = calibration_prompts(&Corpus::prose());
    assert!(prompts.len() >= 3);
    let one = [(prompts[0].clone(), 9)];
    assert_eq!(Fit::to(&one), Err(CalibrationError::TooFew { found: 1 }));
    let flat: Vec<_> = prompts.iter().map(|prompt| (prompt.clone(), 12)).collect();
    assert_eq!(Fit::to(&flat), Err(CalibrationError::NoGrowth));
    let two: Vec<_> = prompts[..2]
        .iter()
        .map(|p| (p.clone(), by_words(&p.text) + 4))
        .collect();
    let fit = Fit::to(&two).unwrap();
    assert!((fit.overhead - 4.0).abs() < 1e-6 && (fit.per_word - 1.0).abs() < 1e-9);
}

/// Case O-WL-01: a prompt has at least one word of its own; what a tokenizer adds comes on top.
#[test]
fn the_shortest_prompt_has_a_word() {
    let special = 1;
    for writer in [
        counted(by_words),
        counted(by_pairs),
        PromptWriter::assuming(Corpus::prose()),
    ] {
        for key in 0..50 {
            assert_eq!(by_words(&text(&writer, key, 1)), 1);
        }
    }
    let request = &requests("input.fixed = 1\noutput.fixed = 5", 1)[0];
    let messages = counted(by_words).messages(request, &[]);
    let body_tokens = by_words(&messages[0].text);
    assert_eq!(
        (messages.len(), body_tokens, body_tokens + special),
        (1, 1, 2)
    );
}

#[test]
fn prompts_share_what_is_planned_and_no_more() {
    let writer = counted(by_words);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut firsts = HashSet::new();
    for key in 0..2_000 {
        let text = text(&writer, key, 60);
        assert_eq!(text, self::text(&writer, key, 60));
        firsts.insert(words(&text)[..6].join(" "));
    }
    assert!(
        firsts.len() > 1_998,
        "openings tell prompts apart: {}",
        firsts.len()
    );
    let spec = "input.fixed = 200\noutput.fixed = 5\nprefixes.system_tokens = 80";
    let texts: Vec<_> = requests(spec, 40)
        .iter()
        .map(|r| words(&writer.text(r, &[])))
        .collect();
    for (i, one) in texts.iter().enumerate() {
        assert_eq!(one.len(), 200);
        for other in &texts[..i] {
            let shared = one.iter().zip(other).take_while(|(a, b)| a == b).count();
            assert!((80..=84).contains(&shared), "{shared}");
        }
    }
}

#[test]
fn a_session_is_told_as_messages_and_served_answers_stand_in() {
    let spec = "input.fixed = 40\noutput.fixed = 12\nprefixes.system_tokens = 10\n\
        [sessions]\nsteps.fixed = 3\nnext_input.fixed = 9";
    let writer = counted(by_words);
    let all = requests(spec, 30);
    let last = all.iter().find(|request| request.step == 2).unwrap();
    let planned = writer.messages(last, &[]);
    let roles: Vec<_> = planned.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [
            Role::System,
            Role::User,
            Role::Assistant,
            Role::User,
            Role::Assistant,
            Role::User
        ]
    );
    let lengths: Vec<_> = planned
        .iter()
        .map(|message| by_words(&message.text))
        .collect();
    assert_eq!(lengths, [10, 30, 12, 9, 12, 9]);
    let served = [Some("What was said.".to_owned()), None];
    let told = writer.messages(last, &served);
    assert_eq!(told[2].text, "What was said.");
    assert_eq!(
        told[4], planned[4],
        "an answer that did not come is told as planned"
    );
    let earlier = all
        .iter()
        .find(|r| r.session == last.session && r.step == 1)
        .unwrap();
    assert_eq!(
        writer.messages(earlier, &[])[..4],
        planned[..4],
        "the history stays as it was"
    );
}

/// Of the tokens of these prompts, as a chat template frames them, the share that a server's cache
/// of 16-token blocks holds; and the share that was planned.
fn hit_shares(spec: &str, count: usize) -> (f64, f64) {
    let writer = counted(by_words);
    let mut cache: HashSet<Vec<String>> = HashSet::new();
    let (mut held, mut planned, mut tokens, mut asked) = (0, 0, 0, 0);
    for request in requests(spec, count) {
        let mut prompt: Vec<String> = Vec::new();
        for message in writer.messages(&request, &[]) {
            prompt.extend([
                "<|im_start|>".into(),
                format!("{:?}", message.role),
                "\n".into(),
            ]);
            prompt.extend(message.text.split(' ').map(str::to_owned));
            prompt.push("<|im_end|>".into());
        }
        prompt.extend(["<|im_start|>", "Assistant", "\n"].map(str::to_owned));
        let mut whole = true;
        for end in (16..prompt.len()).step_by(16) {
            whole = !cache.insert(prompt[..end].to_vec()) && whole;
            held += if whole { 16 } else { 0 };
        }
        planned += request.cached_tokens;
        asked += request.input_tokens;
        tokens += prompt.len();
    }
    (
        f64::from(held) / tokens as f64,
        f64::from(planned) / f64::from(asked),
    )
}

/// What is planned to be reusable is what a server finds in the text.
#[test]
fn planned_hits_are_found_in_the_text() {
    let unique = "input.fixed = 300\noutput.fixed = 5";
    let groups = "input.uniform = { min = 200, max = 900 }\noutput.fixed = 5\n[prefixes]\n\
        groups = { count = 12, zipf = 1.0, tokens = { uniform = { min = 100, max = 400 } } }";
    let sessions = "input.fixed = 300\noutput.fixed = 40\nprefixes.system_tokens = 120\n\
        [sessions]\nsteps.uniform = { min = 1, max = 5 }\nnext_input.fixed = 60";
    for (spec, least) in [(unique, 0.0), (groups, 0.3), (sessions, 0.5)] {
        let (found, planned) = hit_shares(spec, 150);
        assert!(
            (found - planned).abs() < 0.02,
            "{found} of {planned}: {spec}"
        );
        assert!(planned >= least && (least > 0.0 || found == 0.0), "{spec}");
    }
}

#[test]
fn a_text_of_the_users_is_recombined() {
    let mut own = String::new();
    for i in 0..30 {
        write!(
            own,
            "Satz {i} über das Wetter\nam Montag! Und \"noch {i}.\" Ohne Ende"
        )
        .unwrap();
        own.push_str("\n\n");
    }
    let corpus = Corpus::from_text(&own).unwrap();
    assert_eq!(corpus.sentences.len(), 90);
    assert_eq!(&*corpus.sentences[0], "Satz 0 über das Wetter am Montag!");
    assert_eq!(&*corpus.sentences[1], "Und \"noch 0.\"");
    let answer = |text: String| ready(Ok::<_, Infallible>(by_words(&text)));
    let Ok(writer) = now(PromptWriter::counted(corpus, answer));
    let written = text(&writer, 4, 120);
    assert_eq!(by_words(&written), 120);
    assert!(written.contains("über das Wetter am Montag!"));
    let error = Corpus::from_text("One. Two.").unwrap_err();
    assert_eq!(error.found, 2);
    assert!(Corpus::from_text("").is_err());
    let closing = super::corpus::Corpus::prose().closings.remove(0);
    assert_eq!((closing.words(0), closing.words(2)), ("", "and so"));
    let _: &Closing = &closing;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_of_the_users_is_taken_or_refused(text in "(\\PC{0,12}[ .!?\n]){0,120}") {
        if let Ok(corpus) = Corpus::from_text(&text) {
            let writer = PromptWriter::assuming(corpus);
            prop_assert!(!self::text(&writer, 1, 40).is_empty());
        }
    }
}
