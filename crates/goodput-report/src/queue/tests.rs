use std::num::NonZeroU32;

use goodput_perf_model::queueing::{QueueError, overview};
use insta::assert_snapshot;

use super::*;

fn document(rate_per_s: f64, servers: u32) -> Document {
    let question = Question {
        rate_per_s,
        service_s: 0.12,
        servers: NonZeroU32::new(servers).unwrap(),
        scv_arrivals: 1.0,
        scv_service: 1.0,
        cut: 0.2,
    };
    Document {
        question,
        answer: overview(&question).ok(),
        views: None,
    }
}

#[test]
fn one_server_at_nine_tenths() {
    assert_snapshot!(human(&document(7.5, 1), Style::plain()));
}

#[test]
fn many_servers() {
    assert_snapshot!(human(&document(33.0, 5), Style::plain()));
}

#[test]
fn a_queue_that_grows_without_end_has_no_wait() {
    let over = document(10.0, 1);
    let text = human(&over, Style::plain());
    assert!(
        text.contains("UNSTABLE") && text.contains("2 servers"),
        "{text}"
    );
    assert!(!text.contains("mean in services"), "{text}");
    let read: Value = serde_json::from_str(&json(&over)).unwrap();
    assert_eq!(read["stable"], false);
    assert_eq!(read["formulas"], Value::Null);
    assert_eq!(read["servers_at_least"], 2.0);
}

#[test]
fn a_replica_seen_three_ways() {
    let view = |servers, service_s, wait_s| View {
        servers: NonZeroU32::new(servers).unwrap(),
        service_s,
        wait_s,
    };
    let utilization = 20.4;
    let shown = Document {
        views: Some(Views {
            alone: view(1, 1.02, Err(QueueError::Unstable { utilization })),
            peak_rate: view(1, 0.04, Ok(0.16)),
            places: view(40, 1.6, Ok(0.000_001_3)),
            ttft_s: Some(0.045),
        }),
        ..document(20.0, 40)
    };
    let text = human(&shown, Style::plain());
    let table: Vec<&str> = text.lines().skip(3).take(5).collect();
    assert_snapshot!(table.join("\n"));
}
