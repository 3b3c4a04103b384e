//! Workload files, right and wrong.

use crate::WorkloadSpec;

/// All that is wrong with a file is told at once, each at its place and with what was expected.
#[test]
fn a_wrong_file_is_told_in_full() {
    let text = "\
name = 'mine'
input = { log_normal = { median = 900, sigma = -1, max = 100 } }
output.quantiles = { p10 = 5, p100 = 9 }
arrivals = { gamma = { cv = 0 } }
clas = 'chat'
rate_profile = [{ at = '10s', factor = 0 }]
[sessions]
steps.fixed = 0
next_input.uniform = { min = 9, max = 3 }
think_time.fixed = '2s'
";
    let error = WorkloadSpec::parse("mine.toml", text).unwrap_err();
    insta::assert_snapshot!(error.render("mine.toml", text, false));
    let told = |text: &str| {
        let error = WorkloadSpec::parse("w.toml", text).unwrap_err();
        error.render("w.toml", text, false)
    };
    let rows = "arrivals = 'trace'\n[rows]\ntable = '''\n0 10 10\n5 x 10\n+3 4 4 a\n'''";
    insta::assert_snapshot!(told(rows));
    insta::assert_snapshot!(told("arrivals = 'trace'"));
    insta::assert_snapshot!(told("input.fixed = 5"));
}

/// Every example of the guide is a workload.
#[test]
fn the_examples_of_the_guide_are_right() {
    let guide = include_str!("../../../../docs/workload-file.md");
    let examples: Vec<&str> = guide
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let spec = WorkloadSpec::parse("guide", example).unwrap();
        assert!(spec.describe().requests > 0);
    }
}
