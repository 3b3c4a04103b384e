//! What several processes that load one server together saw of it.

use goodput_ledger::WatchRow;

use super::foreign_share;

/// What the looks of all shares of a point say together; `None` stands for a share that did not
/// look. `None`: nobody looked.
///
/// Foreign traffic is seen by the requests that ended in the server and were no share's. Of the
/// shares' counts of the server the smallest counts: it is of the share that looked last before the
/// point and first after it, so that neither the warm-up nor the last requests of another one are
/// taken for foreign. Requests in flight are not compared: medians of shares do not add up.
#[must_use]
pub fn watched_together(shares: &[Option<WatchRow>]) -> Option<WatchRow> {
    let rows: Vec<&WatchRow> = shares.iter().flatten().collect();
    let first = rows.first()?;
    let all = |of: fn(&WatchRow) -> Option<u64>| -> Option<Vec<u64>> {
        shares.iter().map(|row| of(row.as_ref()?)).collect()
    };
    let mut answered_as: Vec<String> = rows.iter().flat_map(|r| r.answered_as.clone()).collect();
    answered_as.sort();
    answered_as.dedup();
    let mut row = WatchRow {
        looks: rows.iter().map(|r| r.looks).min().unwrap_or(0),
        in_server_p50: rows.iter().filter_map(|r| r.in_server_p50).reduce(f64::max),
        ours_p50: None,
        foreign_in_server: None,
        ended_in_server: all(|r| r.ended_in_server).and_then(|n| n.into_iter().min()),
        ended_ours: all(|r| r.ended_ours).map(|n| n.iter().sum()),
        foreign_share: None,
        replicas_seen: rows.iter().map(|r| r.replicas_seen).max().unwrap_or(0),
        answered_as,
        restarts: rows.iter().map(|r| r.restarts).max().unwrap_or(0),
        started_unix_s: first.started_unix_s,
    };
    row.foreign_share = foreign_share(&row);
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(in_server: u64, ours: u64) -> WatchRow {
        WatchRow {
            looks: 9,
            in_server_p50: Some(8.0),
            ours_p50: Some(0.0),
            foreign_in_server: Some(8.0),
            ended_in_server: Some(in_server),
            ended_ours: Some(ours),
            foreign_share: Some(1.0),
            replicas_seen: 1,
            ..WatchRow::default()
        }
    }

    #[test]
    fn what_other_shares_sent_is_not_foreign() {
        // One share looked before the warm-up of the others was over.
        let together = watched_together(&[
            Some(share(130, 40)),
            Some(share(120, 40)),
            Some(share(119, 40)),
        ])
        .unwrap();
        assert_eq!(together.foreign_share, Some(0.0));
        assert_eq!(
            (together.ended_in_server, together.ended_ours),
            (Some(119), Some(120))
        );
    }

    #[test]
    fn what_nobody_sent_is_foreign() {
        let together = watched_together(&[
            Some(share(160, 40)),
            Some(share(160, 40)),
            Some(share(160, 40)),
        ])
        .unwrap();
        assert_eq!(together.foreign_share, Some(0.25));
    }

    #[test]
    fn a_share_that_did_not_look_leaves_it_open() {
        let together = watched_together(&[Some(share(160, 40)), None]).unwrap();
        assert_eq!((together.foreign_share, together.ended_ours), (None, None));
        assert_eq!(watched_together(&[None, None]), None);
    }

    #[test]
    fn one_restart_and_one_second_replica_are_enough() {
        let odd = Some(share(10, 5)).map(|row| WatchRow {
            restarts: 1,
            replicas_seen: 2,
            answered_as: vec!["b".to_owned()],
            ..row
        });
        let plain = Some(share(10, 5)).map(|row| WatchRow {
            answered_as: vec!["a".to_owned(), "b".to_owned()],
            ..row
        });
        let together = watched_together(&[plain, odd]).unwrap();
        assert_eq!((together.restarts, together.replicas_seen), (1, 2));
        assert_eq!(together.answered_as, ["a", "b"]);
    }
}
