//! A sample of a point's requests, for the timeline.

use goodput_record::{RequestSummary, Timestamp};

use crate::document::RequestBar;

impl RequestBar {
    /// The bar of one request; its times are seconds since the run's epoch.
    #[must_use]
    pub fn of(summary: &RequestSummary, met: bool) -> Self {
        let input = summary.end().input_tokens;
        Self {
            origin_s: summary.origin().seconds(),
            sent_s: summary.sent().map(Timestamp::seconds),
            first_token_s: summary.first_token().map(Timestamp::seconds),
            end_s: summary.ended().seconds(),
            met,
            outcome: summary.outcome().name().to_owned(),
            input_tokens: input.unwrap_or(summary.arrival().planned_input_tokens),
            output_tokens: summary.output_tokens(),
        }
    }

    /// Puts bars in order of origin, at most `most` of them, with times since the first.
    #[must_use]
    pub fn since_the_first(mut bars: Vec<Self>, most: usize) -> Vec<Self> {
        bars.sort_by(|a, b| a.origin_s.total_cmp(&b.origin_s));
        bars.truncate(most);
        let start = bars.first().map_or(0.0, |b| b.origin_s);
        // In whole microseconds: a tenth of a pixel needs no more digits.
        let shifted = |at: f64| ((at - start) * 1e6).round() / 1e6;
        for bar in &mut bars {
            bar.origin_s = shifted(bar.origin_s);
            bar.sent_s = bar.sent_s.map(shifted);
            bar.first_token_s = bar.first_token_s.map(shifted);
            bar.end_s = shifted(bar.end_s);
        }
        bars
    }
}
