//! Case O-RP-04: a server's own times are held against the client's.

use std::{thread, time::Duration};

use serde_json::json;

use crate::{
    program::{Place, has_finding},
    server::{Server, Stream},
};

#[test]
fn a_duration_in_the_wrong_unit_is_flagged_and_not_used() {
    let server = Server::start(|_, socket| {
        let mut stream = Stream::begin(socket)?;
        for token in ["a", "b", "c", "d"] {
            stream.token(token)?;
            thread::sleep(Duration::from_millis(20));
        }
        // Milliseconds by mistake: nanoseconds are expected.
        stream.finish("stop", 8, 4, &json!({"eval_count": 4, "eval_duration": 60}))
    });
    let place = Place::new("timing");
    place
        .bench(&server.url, &["--requests", "3", "--warmup", "0"])
        .measured();
    let result = place.result();
    assert!(
        has_finding(&result, "server-timing"),
        "{}",
        result["findings"]
    );
    let point = &result["points"][0];
    assert_eq!(point["server_timings"], 3);
    assert_eq!(point["server_timings_implausible"], 3);
    assert!(point["server_timing_ratio"].as_f64().unwrap() < 1e-4);
    let tpot = point["tpot_p50_ms"].as_f64().unwrap();
    assert!(tpot >= 10.0, "measured by the client: {tpot} ms");
}

/// Every number of a row or a result says what it is in.
#[test]
fn field_names_carry_their_unit() {
    let server = Server::start(|_, socket| crate::server::stream(socket, 3));
    let place = Place::new("units");
    place
        .bench(&server.url, &["--requests", "2", "--warmup", "0"])
        .measured();
    for (name, _) in place.rows()[0].as_object().unwrap() {
        let of_time = [
            "ttft", "tpot", "itl", "stall", "e2e", "connect", "origin", "end", "sent",
        ];
        if of_time
            .iter()
            .any(|t| name == t || name.starts_with(&format!("{t}_")))
        {
            assert!(name.ends_with("_ms") || name.ends_with("_ns"), "{name}");
        }
    }
}
