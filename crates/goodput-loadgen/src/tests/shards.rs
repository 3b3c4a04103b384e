//! Shares of one schedule: together they are the whole, from one instant on.

use goodput_record::Timestamp;

use super::{server::serve, *};

/// Runs the shares of `plan` side by side from `start_at` on; their reports and what they heard.
async fn shares(
    address: SocketAddr,
    plan: &PointPlan,
    of: u16,
    start_at: Timestamp,
    clock: Clock,
) -> Vec<(PointReport, Rc<Heard>)> {
    let mut all = tokio::task::JoinSet::new();
    for index in 0..of {
        let plan = PointPlan {
            shard: Shard::new(index, of).unwrap(),
            start_at: Some(start_at),
            ..plan.clone()
        };
        all.spawn_local(async move {
            let client = Client::new(target(address), clock, "t").await.unwrap();
            client.share_numbers(index, of);
            let heard = Rc::new(Heard::default());
            let compose: Rc<dyn Compose> = Rc::new(Plain);
            let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
            let load = Workload::with_ramp(&spec, plan.load, 7, plan.shard, Duration::ZERO);
            let stop = Stop::new();
            let report = run_point(&client, &compose, load, &plan, &heard, &stop).await;
            (report.unwrap(), heard)
        });
    }
    all.join_all().await
}

fn merged(parts: Vec<(PointReport, Rc<Heard>)>, plan: &PointPlan) -> (PointReport, Vec<Ended>) {
    let (reports, heard): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let ended = heard.iter().flat_map(|heard| heard.ended.take()).collect();
    (PointReport::merged(reports, plan).unwrap(), ended)
}

#[test]
fn shares_of_an_open_loop_send_the_whole_schedule_from_the_same_instant() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(2, ms(1), ms(1)).await?;
            Ok(Some(sock))
        })
        .await;
        let load = Load::Open { per_second: 300.0 };
        let plan = PointPlan {
            settle: Settle::None,
            ..PointPlan::new(0, load, Window::Duration(ms(500)))
        };
        let clock = Clock::start();
        let start = clock.now().after(ms(150));
        let parts = shares(address, &plan, 3, start, clock).await;
        for (report, _) in &parts {
            assert_eq!(
                report.window,
                start..start.after(ms(500)),
                "the planned instants"
            );
        }
        let (report, ended) = merged(parts, &plan);
        let mut expected = workload(load);
        let mut due = Vec::new();
        while let Some(next) = expected
            .next_due()
            .filter(|at| *at < Timestamp::from_millis(500))
        {
            due.push(start.after(Duration::from_nanos(next.nanos())));
            expected.take(next).unwrap();
        }
        let measured = ended.iter().filter(|e| e.phase == Phase::Measured);
        let mut origins: Vec<_> = measured.map(|e| e.record.summary.origin()).collect();
        origins.sort();
        assert_eq!(origins, due);
        assert_eq!(report.arrivals_due, due.len() as u64);
        assert_eq!(report.send_lag.count(), due.len() as u64);
        let mut ids: Vec<u64> = ended.iter().map(|e| e.record.summary.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ended.len(), "no number twice");
    });
}

#[test]
fn shares_of_a_closed_loop_have_their_users_and_requests_and_the_whole_has_all() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(2, ms(20), ms(1)).await?;
            Ok(Some(sock))
        })
        .await;
        let plan = counted(closed(8), 41);
        let clock = Clock::start();
        let parts = shares(address, &plan, 3, clock.now().after(ms(50)), clock).await;
        let peaks: Vec<u32> = parts.iter().map(|(r, _)| r.peak_in_flight).collect();
        assert_eq!(peaks.iter().sum::<u32>(), 8, "{peaks:?}");
        let (report, ended) = merged(parts, &plan);
        assert_eq!((ended.len(), seen.requests.get()), (41, 41));
        assert_eq!((report.arrivals_due, report.peak_in_flight), (41, 8));
        assert!(
            !report
                .invalid
                .iter()
                .any(|i| matches!(i, crate::Invalid::Peak { .. }))
        );
    });
}

/// Fewer requests than shares: one of them has nothing to do, and says nothing against the rest.
#[test]
fn a_share_without_requests_ends_at_once() {
    run(async {
        let (address, seen) = serve(|mut sock, _, _| async move {
            sock.stream(1, ms(1), ms(1)).await?;
            Ok(Some(sock))
        })
        .await;
        let plan = counted(closed(1), 1);
        let clock = Clock::start();
        let parts = shares(address, &plan, 2, clock.now().after(ms(20)), clock).await;
        let (report, ended) = merged(parts, &plan);
        assert_eq!((ended.len(), seen.requests.get()), (1, 1));
        assert_eq!(report.arrivals_sent, 1);
    });
}

/// A start that has passed stands, or the point would hide how late its requests are.
#[test]
fn a_missed_start_is_late_not_moved() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(1, ms(1), ms(1)).await?;
            Ok(Some(sock))
        })
        .await;
        let load = Load::Open { per_second: 100.0 };
        let plan = PointPlan {
            settle: Settle::None,
            ..PointPlan::new(0, load, Window::Duration(ms(400)))
        };
        let clock = Clock::start();
        tokio::time::sleep(ms(200)).await;
        let parts = shares(address, &plan, 1, Timestamp::ZERO, clock).await;
        let (report, _) = merged(parts, &plan);
        assert_eq!(report.window.start, Timestamp::ZERO);
        assert!(report.send_lag.max().unwrap() > 150_000_000);
        assert!(!report.valid(), "{:?}", report.invalid);
    });
}
