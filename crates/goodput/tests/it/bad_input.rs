//! Bad input: one clear message that says where, what was expected and what to do; the right exit
//! code; what was measured is kept.

use serde_json::json;

use crate::{
    program::Place,
    server::{Server, stream, text, whole},
};

const ONE: [&str; 4] = ["--requests", "1", "--warmup", "0"];

#[test]
fn a_wrong_url_says_what_one_looks_like() {
    let place = Place::new("url");
    for url in [
        "localhost",
        "ftp://host/v1",
        "http://",
        "http://ho st/v1",
        "",
    ] {
        let ran = place.bench(url, &ONE).exits(2).one_error();
        ran.says(&["http://HOST:PORT/v1"]);
    }
    place
        .bench("http://no-such-host.invalid/v1", &ONE)
        .exits(2)
        .one_error()
        .says(&["no-such-host.invalid", "check the host name"]);
    assert!(place.all_files().is_empty());
}

#[test]
fn a_port_nobody_listens_on_is_said() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", free.local_addr().unwrap());
    drop(free);
    let place = Place::new("refused");
    let ran = place.bench(&url, &ONE).exits(3).one_error();
    ran.says(&["no connection to 127.0.0.1", "is the server up"]);
    assert!(place.all_files().is_empty());
}

#[test]
fn a_web_page_is_no_api() {
    let server = Server::raw(|_, socket| text(socket, 200, "text/html", "<!doctype html><p>Hi"));
    let place = Place::new("html");
    let ran = place.bench(&server.url, &ONE).exits(3).one_error();
    ran.says(&["/v1/models", "web page", "http://HOST:PORT/v1"]);
    assert!(place.all_files().is_empty());
}

#[test]
fn a_base_without_v1_is_corrected() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("base");
    let base = server.url.trim_end_matches("/v1").to_owned();
    let ran = place.bench(&base, &ONE).exits(3).one_error();
    ran.says(&[&format!("use {}", server.url)]);
}

#[test]
fn a_page_in_place_of_an_answer_is_a_failed_request_that_says_so() {
    let server = Server::start(|_, socket| text(socket, 200, "text/html", "<html>Log in</html>"));
    let place = Place::new("page");
    let ran = place.bench(&server.url, &ONE);
    assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
    let row = &place.rows()[0];
    assert_eq!(row["outcome"], "not_a_stream");
    assert!(
        row["error"].as_str().unwrap().contains("HTML page"),
        "{row}"
    );
}

#[test]
fn a_missing_key_names_where_it_is_looked_for() {
    let server =
        Server::raw(|_, socket| whole(socket, 401, &json!({"error": {"message": "Unauthorized"}})));
    let place = Place::new("401");
    let ran = place.bench(&server.url, &ONE).exits(3).one_error();
    ran.says(&[
        "401",
        "Unauthorized",
        "environment variable",
        "OPENAI_API_KEY",
    ]);
}

#[test]
fn a_key_file_that_is_not_there_is_named() {
    let place = Place::new("key");
    let ran = place.bench("http://127.0.0.1:1/v1", &["--api-key-file", "no.txt"]);
    ran.exits(2).one_error().says(&["no.txt"]);
}

#[test]
fn a_limit_on_clients_is_counted_not_hidden() {
    let server = Server::start(|asked, socket| {
        if asked.number % 2 == 0 {
            return stream(socket, 2);
        }
        whole(socket, 429, &json!({"error": {"message": "rate limit"}}))
    });
    let place = Place::new("429");
    let flags = ["--requests", "10", "--warmup", "0"];
    let ran = place.bench(&server.url, &flags);
    assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
    let point = &place.result()["points"][0];
    assert_eq!(point["outcomes"], json!({"ok": 5, "rejected": 5}));
    assert_eq!(point["statuses"], json!({"200": 5, "429": 5}));
    assert!(point["slo_attainment"].as_f64().unwrap() <= 0.5);
    assert_eq!(server.generations().len(), 10, "no retries are hidden");
    let rows = place.rows();
    let refused = rows.iter().find(|r| r["http_status"] == 429).unwrap();
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("limits its clients")
    );
}

#[test]
fn a_model_that_is_not_served_lists_those_that_are() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("model");
    let mut flags = vec!["--model", "gpt-x"];
    flags.extend(ONE);
    let ran = place.bench(&server.url, &flags).exits(3).one_error();
    ran.says(&["gpt-x", "it serves `m`"]);
    assert!(server.generations().is_empty());
}

/// A proxy that lists no models and knows none of this name.
#[test]
fn a_404_for_the_model_says_what_to_ask_for() {
    let server = Server::raw(|_, socket| {
        let said = json!({"error": {"message": "The model `gpt-x` does not exist", "code": 404}});
        whole(socket, 404, &said)
    });
    let place = Place::new("404");
    let mut flags = vec!["--model", "gpt-x"];
    flags.extend(ONE);
    let ran = place.bench(&server.url, &flags);
    assert!(matches!(ran.code, Some(1 | 3)), "{ran}");
    let row = &place.rows()[0];
    let error = row["error"].as_str().unwrap();
    assert!(
        error.contains("gpt-x") && error.contains("/v1/models"),
        "{row}"
    );
}

#[test]
fn a_broken_row_is_named_by_its_place() {
    let place = Place::new("rows");
    place.write(
        "mooncake.jsonl",
        "{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 10, \"hash_ids\": [1]}\n\
         {\"timestamp\": 5, \"input_length\": 100, \"output_le\n\
         {\"timestamp\": 9, \"input_length\": 100, \"output_length\": 10, \"hash_ids\": [1]}\n",
    );
    let ran = place
        .run(&["trace", "inspect", "mooncake.jsonl"])
        .exits(2)
        .one_error();
    ran.says(&["mooncake.jsonl", "row 2", "expected"]);
    let ran = place
        .run(&["trace", "inspect", "mooncake.jsonl", "--skip-broken"])
        .exits(0);
    ran.says(&["1 rows left out"]);
    let rows = "rows.table = \"\"\"\n0 100 10\n5 100 ten\n9 100 10\n\"\"\"\n";
    place.write(
        "w.toml",
        &format!("class = \"chat\"\narrivals = \"trace\"\n{rows}"),
    );
    let ran = place.run(&["bench", "--workload", "w.toml"]).exits(2);
    ran.says(&["w.toml", "row 2", "ten"]);
    place
        .run(&["trace", "inspect", "no.jsonl"])
        .exits(2)
        .one_error()
        .says(&["no.jsonl"]);
}

#[test]
fn a_workload_longer_than_the_context_is_refused() {
    let place = Place::new("long");
    let long = crate::workloads::TINY.replace("input.fixed = 12", "input.fixed = 40000");
    place.write("w.toml", &long);
    let ran = place.run(&["bench", "--workload", "w.toml", "--out", "out"]);
    ran.exits(2)
        .one_error()
        .says(&["40004", "context", "32768", "shorter workload"]);
    assert_eq!(place.all_files().len(), 1);
}

#[test]
fn names_that_do_not_exist_suggest_near_ones() {
    let place = Place::new("names");
    for (flags, words) in [
        (&["--workload", "chat-shrt"][..], &["chat-short"][..]),
        (&["--profile", "latop"], &["laptop"]),
        (&["--slo", "chatt"], &["chat"]),
        (&["--fault", "erors=5%"], &["errors"]),
    ] {
        let mut args = vec!["bench"];
        args.extend(flags);
        place.run(&args).exits(2).one_error().says(words);
    }
    assert!(place.all_files().is_empty());
}

#[test]
fn a_replica_with_slots_is_simulated_and_not_emulated() {
    let place = Place::new("slots");
    let laptop = include_str!("../../../goodput-perf-model/profiles/laptop.toml");
    let slots = laptop.replace("[engine]", "[engine]\nscheduler = \"slots\"");
    place.write("slots.toml", &slots);
    let ran = place.run(&["bench", "--profile", "slots.toml", "--out", "out"]);
    ran.exits(2)
        .one_error()
        .says(&["slots", "goodput simulate"]);
    assert_eq!(place.all_files().len(), 1);
    let args = ["simulate", "--profile", "slots.toml", "--concurrency", "4"];
    let args = [&args[..], &["--requests", "50", "--out", "out"]].concat();
    place.run(&args);
    let mut written = place.all_files().into_iter();
    assert!(written.any(|(path, _)| path.ends_with("result.json")));
}

#[test]
fn wrong_amounts_are_refused_before_anything_starts() {
    let server = Server::start(|_, socket| stream(socket, 1));
    let place = Place::new("amounts");
    for flags in [
        ["--duration", "10"],
        ["--duration", "ten"],
        ["--warmup", "soon"],
        ["--requests", "0"],
        ["--concurrency", "0"],
        ["--rate", "-3"],
        ["--timeout-idle", "5"],
        ["--gpus", "0"],
    ] {
        place.bench(&server.url, &flags).exits(2).says(&["error"]);
    }
    let sweep = ["sweep", "--url", &server.url, "--concurrency", "4,x"];
    place
        .run(&sweep)
        .exits(2)
        .one_error()
        .says(&["--concurrency"]);
    assert!(server.asked().is_empty());
    assert!(place.all_files().is_empty());
}

#[test]
fn a_public_address_has_to_be_meant() {
    let place = Place::new("public");
    // TEST-NET-1: routed nowhere.
    for url in [
        "http://192.0.2.1:8000/v1",
        "https://192.0.2.1/v1",
        "http://[2001:db8::1]/v1",
    ] {
        let ran = place.bench(url, &ONE).exits(2).one_error();
        ran.says(&["public address", "--yes-load"]);
    }
    assert!(place.all_files().is_empty());
}

#[test]
fn a_result_is_never_overwritten() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("twice");
    place.bench(&server.url, &ONE).measured();
    let before = place.read("out/result.json");
    let ran = place.bench(&server.url, &ONE).exits(2).one_error();
    ran.says(&["out holds a result already", "--out"]);
    assert_eq!(place.read("out/result.json"), before);
    assert_eq!(server.generations().len(), 1);
}

#[test]
fn a_folder_that_cannot_be_made_is_said() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("folder");
    place.write("out", "a file");
    let ran = place.bench(&server.url, &ONE).exits(3).one_error();
    ran.says(&["cannot make the result folder", "out"]);
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_the_rest() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("full");
    let mut args = vec!["bench", "--url", &server.url, "--out", "out"];
    args.extend(["--concurrency", "2", "--duration", "10min", "--warmup", "0"]);
    let ran = place.run_under(crate::program::FULL_DISK, &args).exits(3);
    let ran = ran.says(&["cannot write", "requests.jsonl"]);
    assert!(!ran.stderr.contains("panicked"), "{ran}");
    assert!(
        place.rows().len() > 10,
        "what was measured is kept, in whole lines"
    );
    let result = place.result();
    assert_eq!(result["complete"], false);
    assert!(
        result["incomplete_because"]
            .as_str()
            .unwrap()
            .contains("requests.jsonl")
    );
}

/// A device, or a data file named by mistake: what has no end is not read to it.
#[test]
fn a_file_without_an_end_is_refused() {
    let place = Place::new("endless");
    for name in ["slo.toml", "w.toml", "profile.toml"] {
        std::os::unix::fs::symlink("/dev/zero", place.path.join(name)).unwrap();
    }
    let refuses = |args: &[&str], name: &str| {
        let ran = place.run(args).exits(2).one_error();
        ran.says(&[name, "goes on beyond 16 MiB", "hint: name a text file"]);
    };
    refuses(&["slo", "check", "slo.toml"], "the SLO file slo.toml");
    refuses(&["bench", "--slo", "slo.toml"], "the SLO file slo.toml");
    refuses(&["bench", "--workload", "w.toml"], "the workload w.toml");
    refuses(
        &["bench", "--profile", "profile.toml"],
        "the profile profile.toml",
    );
    let rules = ["compare", "a", "b", "--rules", "/dev/urandom"];
    refuses(&rules, "the rules file /dev/urandom");
}
