//! Whole load points.

use goodput_record::Outcome;

use super::{server::serve, *};

/// `--requests 1 --concurrency 1 --warmup 0` sends exactly one request.
#[test]
fn one_request_is_exactly_one_request() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(5, ms(20), ms(5)).await?;
            Ok(Some(sock))
        })
        .await;
        let (report, heard) = drive(target(address), &counted(closed(1), 1), &Stop::new()).await;
        assert_eq!((seen.requests.get(), seen.connections.get()), (1, 1));
        let ended = heard.only();
        assert_eq!(
            (ended.phase, ended.record.summary.outcome()),
            (Phase::Measured, Outcome::Ok)
        );
        assert_eq!(ended.record.summary.output_tokens(), 5);
        assert_eq!(ended.record.summary.events(), 5);
        assert_eq!((report.arrivals_due, report.arrivals_sent), (1, 1));
        assert_eq!((report.peak_in_flight, report.not_sent), (1, 0));
        assert!(report.window_span().is_some());
        let head = seen.last_request.borrow().clone();
        assert!(
            head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains("x-request-id: t-0\r\n"), "{head}");
    });
}

/// O-CL-01: 256 users, 512 requests of a second each: the server sees 256 at once.
#[test]
fn no_pool_stands_below_the_asked_concurrency() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(1, ms(1000), ms(0)).await?;
            Ok(Some(sock))
        })
        .await;
        let (report, heard) =
            drive(target(address), &counted(closed(256), 512), &Stop::new()).await;
        assert_eq!((seen.peak.get(), seen.requests.get()), (256, 512));
        assert_eq!((report.peak_in_flight, seen.connections.get()), (256, 256));
        let all = heard.summaries(Phase::Measured);
        assert_eq!(all.len(), 512);
        assert_eq!(report.traffic.reused_share(), Some(0.5));
    });
}

/// The point is marked when the load was not the one asked for.
#[test]
fn a_load_that_was_never_reached_makes_the_point_invalid() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(1, ms(1), ms(0)).await?;
            Ok(Some(sock))
        })
        .await;
        let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
        let plan = counted(closed(64), 200);
        let client = Client::new(target(address), Clock::start(), "t")
            .await
            .unwrap();
        let heard = Rc::new(Heard::default());
        let compose: Rc<dyn Compose> = Rc::new(Plain);
        // A ramp so slow that the first users are done before the last have begun.
        let load = Workload::with_ramp(&spec, plan.load, 7, Shard::WHOLE, Duration::from_secs(20));
        let report = run_point(&client, &compose, load, &plan, &heard, &Stop::new())
            .await
            .unwrap();
        assert!(report.peak_in_flight < 62);
        assert!(matches!(
            report.invalid[0],
            crate::Invalid::Peak { configured: 64, .. }
        ));
    });
}

#[test]
fn the_first_wave_is_marked_and_load_held_while_draining() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(3, ms(10), ms(5)).await?;
            Ok(Some(sock))
        })
        .await;
        let plan = PointPlan::new(0, closed(4), Window::Duration(ms(300)));
        let (report, heard) = drive(target(address), &plan, &Stop::new()).await;
        assert_eq!(heard.summaries(Phase::FirstWave).len(), 4);
        let measured = heard.summaries(Phase::Measured);
        assert!(!measured.is_empty());
        let inside = |s: &RequestSummary| report.window.contains(&s.due());
        assert!(measured.iter().all(inside));
        assert!(heard.summaries(Phase::Drain).iter().all(|s| !inside(s)));
        assert!(measured.iter().all(|s| s.outcome() == Outcome::Ok));
        assert!(report.in_flight_at_end > 0 && report.in_flight_at_end <= 4);
        assert_eq!(report.cut_at_drain, 0);
        let arrived = heard.arrived.borrow().len();
        assert_eq!(
            arrived,
            heard.ended.borrow().len(),
            "every arrival ends once"
        );
        assert_eq!(arrived, seen.requests.get() as usize);
        let drained = report.window.end;
        for end in measured
            .iter()
            .map(RequestSummary::ended)
            .filter(|end| *end > drained)
        {
            let open = |s: &&RequestSummary| s.due() <= end && s.ended() >= end;
            let held = heard
                .ended
                .borrow()
                .iter()
                .map(|e| e.record.summary)
                .filter(|s| open(&s))
                .count();
            assert!(held >= 4, "{held} in flight while draining");
        }
    });
}

/// O-WL-03, O-ST-04: the schedule stands whatever a send costs and however long an answer takes.
#[test]
fn an_open_loop_keeps_its_schedule_while_the_server_stalls() {
    run(async {
        let (address, seen) = serve(|mut sock, _, seen| async move {
            // The 20th request and all that come in the next 300 ms wait for the stall to end.
            if (20..80).contains(&seen.requests.get()) {
                tokio::time::sleep(ms(300)).await;
            }
            sock.stream(2, ms(0), ms(1)).await?;
            Ok(Some(sock))
        })
        .await;
        let load = Load::Open { per_second: 200.0 };
        let mut expected = workload(load);
        let mut due = Vec::new();
        while let Some(next) = expected.next_due().filter(|_| due.len() < 200) {
            due.push(next);
            expected.take(next).unwrap();
        }
        let (report, heard) = drive(target(address), &counted(load, 200), &Stop::new()).await;
        let measured = heard.summaries(Phase::Measured);
        assert_eq!((measured.len(), seen.requests.get()), (200, 200));
        let mut origins: Vec<_> = measured.iter().map(RequestSummary::origin).collect();
        origins.sort();
        // Never re-anchored, none left out: the origins are the schedule, to the nanosecond.
        let start = origins[0].since(due[0]).unwrap();
        assert!(origins.iter().zip(&due).all(|(o, d)| *o == d.after(start)));
        assert!(measured.iter().all(|s| s.sent().unwrap() >= s.origin()));
        assert!(report.peak_in_flight > 20, "sends do not wait for answers");
        assert_eq!(report.send_lag.count(), 200);
        assert_eq!((report.arrivals_due, report.arrivals_sent), (200, 200));
    });
}

/// O-CI-01: Ctrl-C stops sending, gives what is in flight a grace, and everything is a record.
#[test]
fn an_interrupt_drains_and_keeps_what_was_measured() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(3, ms(30), ms(20)).await?;
            Ok(Some(sock))
        })
        .await;
        let stop = Stop::new();
        let plan = PointPlan {
            settle: Settle::None,
            ..PointPlan::new(0, closed(4), Window::Duration(Duration::from_mins(1)))
        };
        let signal = stop.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(ms(250)).await;
            signal.ask();
        });
        let (report, heard) = drive(target(address), &plan, &stop).await;
        assert!(report.interrupted);
        let ended = heard.ended.borrow();
        assert_eq!(ended.len(), seen.requests.get() as usize);
        assert!(
            ended
                .iter()
                .all(|e| e.record.summary.outcome() == Outcome::Ok),
            "the grace was enough"
        );
        assert!(
            ended
                .iter()
                .all(|e| e.record.summary.origin() <= report.window.end)
        );
    });
}

#[test]
fn a_second_interrupt_ends_everything_as_cancelled() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(1_000, ms(1), ms(20)).await?;
            Ok(Some(sock))
        })
        .await;
        let stop = Stop::new();
        let plan = PointPlan {
            settle: Settle::None,
            ..PointPlan::new(0, closed(3), Window::Duration(Duration::from_mins(1)))
        };
        let signal = stop.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(ms(200)).await;
            signal.ask();
            signal.ask();
        });
        let (report, heard) = drive(target(address), &plan, &stop).await;
        let measured = heard.summaries(Phase::Measured);
        assert_eq!((measured.len(), report.cut_at_drain), (3, 3));
        for s in measured {
            assert_eq!(s.outcome(), Outcome::Cancelled);
            assert!(
                s.events() > 1 && s.output_tokens() == s.events(),
                "what came is counted"
            );
            assert!(s.ttft().is_some());
        }
    });
}

#[test]
fn what_is_not_done_at_the_limit_of_the_drain_is_cut() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(10_000, ms(1), ms(20)).await?;
            Ok(Some(sock))
        })
        .await;
        let plan = PointPlan {
            settle: Settle::None,
            drain: ms(100),
            hold_load: false,
            ..PointPlan::new(0, closed(2), Window::Duration(ms(100)))
        };
        let (report, heard) = drive(target(address), &plan, &Stop::new()).await;
        assert_eq!((report.in_flight_at_end, report.cut_at_drain), (2, 2));
        assert!(!report.interrupted);
        assert_eq!(heard.ended.borrow().len(), 2);
    });
}

#[test]
fn warm_up_says_so_in_every_record() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(1, ms(1), ms(0)).await?;
            Ok(Some(sock))
        })
        .await;
        let plan = PointPlan::warm_up(closed(2), count(6));
        let (_, heard) = drive(target(address), &plan, &Stop::new()).await;
        assert_eq!(
            (heard.summaries(Phase::Warmup).len(), seen.requests.get()),
            (6, 6)
        );
    });
}
