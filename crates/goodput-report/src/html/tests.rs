use super::report as page_of;
use crate::sample::sample;
use goodput_sweep::RunResult;

/// The page as it is written.
fn report(result: &RunResult) -> String {
    let mut page = Vec::new();
    page_of(result).write(&mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// The page without the chart library, which is large and not ours.
fn own_part(page: &str) -> (String, String) {
    let figures = page.find("<script type=\"application/json\"").unwrap();
    let script = figures + page[figures..].find("</script>").unwrap();
    (page[..figures].to_owned(), page[figures..script].to_owned())
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let page = report(&sample());
    let (html, figures) = own_part(&page);
    for needless in [
        "src=\"http",
        "url(http",
        "@import",
        "<link",
        "NaN",
        "Infinity",
    ] {
        assert!(
            !html.contains(needless) && !figures.contains(needless),
            "{needless}"
        );
    }
    assert!(html.contains("Sell 4.6 requests a second per replica."));
    assert!(page.trim_end().ends_with("</html>"));
    assert!(page.contains("plotly.js v"), "the chart library is inside");
    for id in [
        "curve",
        "by-rate",
        "ttft-closed",
        "tpot-open",
        "by-clause",
        "spread-ttft",
        "characters",
    ] {
        assert!(
            html.contains(&format!("data-figure=\"{id}\"")),
            "{id} has no place"
        );
        assert!(
            figures.contains(&format!("\"{id}\":")),
            "{id} has no figure"
        );
    }
}

#[test]
fn names_of_models_and_servers_cannot_break_out() {
    let mut result = sample();
    result.holds_for.model = "</script><b>x".to_owned();
    result.findings[0].evidence = "<img src=x>".to_owned();
    result.holds_for.slos[0].clauses[0].clause = "</script><i>".to_owned();
    let (html, figures) = own_part(&report(&result));
    assert!(!html.contains("<b>x") && !html.contains("<img"));
    assert!(!figures.contains("</"));
}

#[test]
fn a_run_without_any_answer_still_makes_a_page() {
    let mut result = sample();
    result.operating_point = goodput_sweep::OperatingPoint {
        missing: vec!["no rate to sell: no valid open-loop point was measured".to_owned()],
        ..Default::default()
    };
    result.complete = false;
    result.charts.clear();
    let page = report(&result);
    assert!(page.contains("No tested load meets the SLO."));
    assert!(page.contains("The run is not complete"));
    result.points.clear();
    assert!(report(&result).contains("</html>"));
    result.points = vec![sample().points.remove(3)];
    let page = report(&result);
    assert!(page.contains("99.3% of requests met the SLO at 32 in flight."));
    assert!(!page.contains("data-figure=\"curve\"") && page.contains("Which clause binds"));
}

#[test]
fn tiers_are_shown_where_there_are_several() {
    let mut result = sample();
    assert!(!report(&result).contains("Every SLO of this run"));
    let mut second = result.holds_for.slos[0].clone();
    second.name = "gold".to_owned();
    result.holds_for.slos.push(second);
    assert!(report(&result).contains("<th colspan=2>gold"));
}

#[test]
fn several_results_stand_on_one_page_each_with_its_line() {
    let (base, mut other) = (sample(), sample());
    other.holds_for.model = "m<2>".to_owned();
    let runs = vec![("runs/a".to_owned(), base), ("runs/<b>".to_owned(), other)];
    let mut page = Vec::new();
    super::overlay(&runs).write(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let (html, figures) = own_part(&page);
    assert!(html.contains("runs/a") && html.contains("runs/&lt;b&gt;") && !html.contains("<b>"));
    assert!(
        html.contains("m&lt;2&gt;"),
        "the table says in what they differ"
    );
    for figure in ["closed", "open"] {
        assert!(figures.contains(&format!("\"{figure}\":")), "{figure}");
    }
    let lines = figures.matches("\"name\":\"runs/a\"").count();
    assert_eq!(lines, 2, "one line of goodput in each mode");
    assert!(figures.contains("runs/a: throughput"));
}
