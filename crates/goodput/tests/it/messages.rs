//! Messages to the letter: where, what was expected, what to do.

use insta::assert_snapshot;

use crate::{
    program::Place,
    server::{Server, stream, text},
};

fn complaint(args: &[&str]) -> String {
    Place::new("message").run(args).exits(2).one_error().stderr
}

#[test]
fn a_misspelt_clause() {
    assert_snapshot!(complaint(&["bench", "--slo", "tfft=500"]), @r"
    error: unknown clause `tfft`
     --> --slo:1:1
      |
    1 | tfft=500
      | ^^^^
      |
      = note: expected one of `ttft`, `ttft_answer`, `time_to_token_N`, `tpot`, `tpot_median`, `itl_p99`, `stall`, `e2e`, `trajectory`
      = help: did you mean `ttft`?
    ");
}

#[test]
fn a_bound_without_a_unit() {
    assert_snapshot!(complaint(&["slo", "check", "ttft=0.5"]), @r#"
    error: `0.5` has no unit
     --> --slo:1:6
      |
    1 | ttft=0.5
      |      ^^^
      |
      = note: expected a number with its unit, such as "500ms", "1.5s", "10min" or "28d"
      = help: write "0.5ms" or "0.5s", as it is meant
    "#);
}

#[test]
fn a_url_without_a_scheme() {
    let said = complaint(&["bench", "--url", "localhost:8000"]);
    assert_snapshot!(said, @"error: `localhost:8000` is not the base URL of a server: it has no scheme; expected http://HOST:PORT/v1 or https://HOST/v1");
}

#[test]
fn a_public_address() {
    assert_snapshot!(complaint(&["sweep", "--url", "http://192.0.2.1:8000/v1"]), @r"
    error: 192.0.2.1:8000 is a public address
    hint: a load test of somebody else's server is an attack: if it is yours, add --yes-load
    ");
}

#[test]
fn a_list_of_loads() {
    let said = complaint(&["sweep", "--concurrency", "4,x"]);
    assert_snapshot!(said, @"error: --concurrency: `x` is neither a number nor a range; expected `1,2,4`, `50:100:10` (from:to:step) or `1..128x2` (doubling)");
}

#[test]
fn a_budget_in_which_nothing_can_be_measured() {
    assert_snapshot!(complaint(&["sweep", "--budget", "1s"]), @r"
    error: --budget 1 s is too little: no window of a search is shorter than 3 s
    hint: leave it out, which gives each search at least 32 s
    ");
}

#[test]
fn a_workload_too_long() {
    let place = Place::new("message");
    let long = crate::workloads::TINY.replace("input.fixed = 12", "input.fixed = 40000");
    place.write("w.toml", &long);
    let ran = place.run(&["bench", "--workload", "w.toml", "--quiet"]);
    assert_snapshot!(ran.exits(2).one_error().stderr, @r"
    error: the workload `w.toml` has requests of up to 40004 tokens, the context of goodput/laptop is 32768
    hint: choose a shorter workload, or start the server with a longer context
    ");
}

#[test]
fn a_model_that_is_not_served() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("message");
    let ran = place.bench(&server.url, &["--model", "gpt-x"]).exits(3);
    assert_snapshot!(ran.one_error().stderr, @"error: the server does not serve `gpt-x`; it serves `m`");
}

#[test]
fn a_web_page() {
    let server = Server::raw(|_, socket| text(socket, 200, "text/html", "<!doctype html>"));
    let place = Place::new("message");
    let ran = place.bench(&server.url, &[]).exits(3).one_error();
    let said = ran.stderr.replace(&server.url, "URL");
    assert_snapshot!(said, @"error: URL is not the base URL of an OpenAI-compatible API: GET /v1/models gave status 200 and a web page; expected a JSON list of models; use the server's base as clients know it: http://HOST:PORT/v1");
}
