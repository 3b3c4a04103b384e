//! Laws that hold for every request and every bound.

use goodput_record::{Answer, Gaps, Outcome};
use proptest::prelude::*;

use super::*;
use crate::{Bound, Clause};

const METRICS: [&str; 8] = [
    "ttft",
    "ttft_answer",
    "time_to_token_3",
    "tpot",
    "tpot_median",
    "itl_p99",
    "stall",
    "e2e",
];

fn story() -> impl Strategy<Value = Story> {
    let gaps = prop::collection::vec(0_u64..400_000_000, 0..12);
    (gaps, 0_u32..30, any::<bool>(), 0_u64..900_000_000).prop_map(|(gaps, tokens, left, after)| {
        let mut at = 0;
        let tokens_at: Vec<u64> = gaps
            .iter()
            .map(|gap| {
                at += gap;
                at
            })
            .collect();
        let mut story = Story::ok(&[]);
        story.output_tokens = (!tokens_at.is_empty()).then(|| tokens.max(1));
        story.tokens_at = tokens_at;
        story.ended = at + after;
        if left {
            story.end.outcome = Outcome::Cancelled;
        }
        story
    })
}

proptest! {
    /// Whoever keeps a bound keeps every looser one; whoever breaks it breaks every tighter one.
    #[test]
    fn judging_is_monotone_in_the_bound(
        story in story(), metric in 0..METRICS.len(), tight in 1_u64..1_000_000_000, more in 0_u64..1_000_000_000,
    ) {
        let metric = METRICS[metric];
        let (tight, loose) = (format!("{metric}={tight}ns"), format!("{metric}={}ns", tight + more));
        let (tight, loose) = (story.judged(&slo(&tight)), story.judged(&slo(&loose)));
        if tight == Verdict::Met {
            prop_assert!(!matches!(loose, Verdict::Missed(_)));
        }
        if matches!(loose, Verdict::Missed(_)) {
            prop_assert!(matches!(tight, Verdict::Missed(_)));
        }
        if story.end.outcome == Outcome::Ok {
            prop_assert_ne!(tight, Verdict::Excused, "with its gaps, an ended answer is decided");
            prop_assert!(tight != Verdict::Met || loose == Verdict::Met);
        }
    }

    /// More clauses never turn a miss into anything else.
    #[test]
    fn another_clause_never_helps(story in story(), ttft in 1_u64..500, e2e in 1_u64..3_000) {
        let one = story.judged(&slo(&format!("ttft={ttft}ms")));
        let two = story.judged(&slo(&format!("ttft={ttft}ms,e2e={e2e}ms")));
        if matches!(one, Verdict::Missed(_)) {
            prop_assert!(matches!(two, Verdict::Missed(_)));
        }
        if two == Verdict::Met {
            prop_assert_eq!(one, Verdict::Met);
        }
    }

    /// TPOT against a rational number: span / (tokens - 1) <= bound, without rounding.
    #[test]
    fn tpot_is_judged_without_rounding(span in 1_u64..10_000_000_000, tokens in 2_u32..500, off in -1_i64..=1) {
        let mut story = Story::ok(&[]);
        story.tokens_at = vec![5, 5 + span];
        story.ended = 5 + span;
        story.output_tokens = Some(tokens);
        let gaps = u64::from(tokens - 1);
        let bound = (span / gaps).saturating_add_signed(off).max(1);
        let within = u128::from(span) <= u128::from(bound) * u128::from(gaps);
        prop_assert_eq!(story.judged(&slo(&format!("tpot={bound}ns"))).is_met(), within);
    }

    /// A scaled bound against exact arithmetic, written in any unit.
    #[test]
    fn a_scaled_bound_is_exact(base in 0_u64..10_000, per in 1_u64..5_000, input in 0_u32..200_000, cached in 0_u32..200_000) {
        let text = format!("{base}ms + {}.{:03}us x uncached_input_tokens", per / 1_000, per % 1_000);
        let bound = Bound::parse(&text).unwrap();
        let uncached = input.saturating_sub(cached);
        let nanos = u128::from(base) * 1_000_000 + u128::from(per) * u128::from(uncached);
        prop_assert_eq!(bound.at([input, uncached, 0]).as_nanos(), nanos);
        let mut story = Story::ok(&[]);
        story.end.input_tokens = Some(input);
        story.end.cached_tokens = Some(cached);
        let nanos = u64::try_from(nanos).unwrap();
        let slo = slo(&format!("ttft={text}"));
        story.tokens_at = vec![nanos];
        story.ended = nanos;
        prop_assert_eq!(story.judged(&slo), Verdict::Met);
        story.tokens_at = vec![nanos + 1];
        story.ended = nanos + 1;
        prop_assert_eq!(missed(&slo, story.judged(&slo)), ["ttft"]);
    }

    /// Answers told by their ends are judged as their records are.
    #[test]
    fn answers_are_judged_as_their_records(
        named in prop::sample::subsequence(vec!["ttft", "ttft_answer", "p90 tpot", "tpot", "stall", "e2e"], 1..=6),
        bounds in prop::collection::vec((1_u64..400, 0_u64..3), 6),
        (ttft, span, gap) in (0_u64..400_000_000, 0_u64..4_000_000_000, 0_u64..400_000_000),
        (input, tokens) in (1_u32..400, 1_u32..40),
    ) {
        let clauses = named.iter().zip(&bounds).map(|(name, (ms, grows))| match grows {
            0 => format!("{name}<={ms}ms+{ms}us x input_tokens"),
            1 => format!("{name}<={ms}ms+{ms}us x output_tokens"),
            _ => format!("{name}<={ms}ms"),
        });
        let slo = slo(&clauses.collect::<Vec<_>>().join(","));
        let origin = Timestamp::from_nanos(ORIGIN);
        let first = Timestamp::from_nanos(ORIGIN + ttft);
        let last = if tokens > 1 { ttft + span } else { ttft };
        let answer = Answer {
            origin,
            first,
            last: Timestamp::from_nanos(ORIGIN + last),
            input_tokens: input,
            tokens,
            longest_gap_ns: (tokens > 1).then_some(gap),
        };
        let summary = answer.summary(testing::arrival(origin));
        prop_assert_eq!(slo.for_answers().unwrap().judge(&answer), slo.judge(&summary, &Gaps::NotKept));
    }

    /// What a clause prints is what it reads.
    #[test]
    fn a_clause_reads_back_as_printed(metric in 0..METRICS.len(), rank in 0_u32..1_000, base in 1_u64..10_000_000_000, per in 0_u64..1_000_000) {
        let rank = if rank == 0 { String::new() } else { format!("p{}.{} ", rank / 10, rank % 10) };
        let grown = if per == 0 { String::new() } else { format!(" + {per}ns x input_tokens") };
        let clause = Clause::parse(&format!("{rank}{} <= {base}ns{grown}", METRICS[metric])).unwrap();
        prop_assert_eq!(Clause::parse(&clause.to_string()), Ok(clause));
    }

    /// No text breaks the readers, and every problem lies inside the text.
    #[test]
    fn no_text_breaks_a_reader(text in "[a-z0-9 =<>+.,:x%µ≤-]{0,30}") {
        if let Err(error) = Slo::from_argument(&text) {
            let _ = error.render("--slo", &text, false);
            for problem in error.problems {
                prop_assert!(problem.span.is_none_or(|s| s.end <= text.len() && s.start <= s.end));
            }
        }
    }
}
