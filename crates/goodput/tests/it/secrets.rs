//! Case O-CI-04: a key goes to the server and nowhere else.

use std::{fs, thread, time::Duration};

use serde_json::json;

use crate::{
    program::{Place, Ran, until},
    server::{Server, stream, whole},
};

const KEY: &str = "sk-test-ZZZZ9999";

#[track_caller]
fn nowhere(place: &Place, ran: &Ran) {
    assert!(!ran.stdout.contains(KEY), "{ran}");
    assert!(!ran.stderr.contains(KEY), "{ran}");
    for (path, bytes) in place.all_files() {
        let text = String::from_utf8_lossy(&bytes);
        let expected = path.ends_with("key.txt");
        assert_eq!(text.contains(KEY), expected, "{}", path.display());
    }
}

/// The flags of a run, and whether a key on the command line is warned about.
fn ways() -> [(Vec<String>, bool); 4] {
    let own = |flags: &[&str]| flags.iter().map(|f| (*f).to_owned()).collect();
    [
        (own(&["--api-key", KEY]), true),
        (
            own(&["--header", &format!("Authorization: Bearer {KEY}")]),
            false,
        ),
        (own(&["--api-key-file", "key.txt"]), false),
        (own(&["--api-key-env", "MY_KEY"]), false),
    ]
}

fn run(server: &Server, flags: &[String], more: &[&str]) -> (Place, Ran) {
    let place = Place::new("secret");
    place.write("key.txt", &format!("{KEY}\n"));
    let mut command = place.command(&["bench", "--url", &server.url, "--out", "out", "-v"]);
    command.args(["--requests", "2", "--warmup", "0"]);
    command.args(flags).args(more).env("MY_KEY", KEY);
    let ran = Ran::of(&command.output().unwrap());
    (place, ran)
}

#[test]
fn a_key_is_sent_and_never_written() {
    let server = Server::start(|_, socket| stream(socket, 3));
    for (number, (flags, warned)) in ways().into_iter().enumerate() {
        let (place, ran) = run(&server, &flags, &["--keep-text"]);
        let ran = ran.measured();
        nowhere(&place, &ran);
        assert_eq!(ran.stderr.contains("warning: --api-key"), warned, "{ran}");
        let asked = server.generations();
        assert_eq!(asked.len(), 2 * (number + 1));
        let sent = &asked.last().unwrap().headers["authorization"];
        assert_eq!(sent, &format!("Bearer {KEY}"));
    }
}

/// Some servers repeat the key that they refuse.
#[test]
fn a_key_that_the_server_repeats_is_not_written_either() {
    let refuses = |_: &_, socket: &mut _| {
        let said = format!("Incorrect API key provided: {KEY}.");
        whole(socket, 401, &json!({"error": {"message": said}}))
    };
    let late = Server::start(refuses);
    let early = Server::raw(refuses);
    for (flags, _) in ways() {
        let (place, ran) = run(&late, &flags, &[]);
        nowhere(&place, &ran);
        let errors = place.rows();
        assert!(
            errors[0]["error"]
                .as_str()
                .unwrap()
                .contains("Incorrect API key")
        );
        let (place, ran) = run(&early, &flags, &[]);
        let ran = ran.exits(3).one_error().says(&["401", "Incorrect API key"]);
        nowhere(&place, &ran);
    }
}

#[test]
fn a_key_in_the_url_is_refused_without_being_repeated() {
    let place = Place::new("secret");
    let url = format!("http://user:{KEY}@127.0.0.1:1/v1");
    let ran = place.bench(&url, &[]).exits(2).one_error();
    nowhere(&place, &ran);
}

#[test]
fn a_header_or_field_that_cannot_be_read_is_not_repeated() {
    let place = Place::new("secret");
    for flags in [
        ["--header", "Authorization Bearer sk-test-ZZZZ9999"],
        ["--header", "x-key: a\nsk-test-ZZZZ9999"],
        ["--api-key", "sk-test-ZZZZ9999\n"],
    ] {
        let ran = place
            .bench("http://127.0.0.1:1/v1", &flags)
            .exits(2)
            .one_error();
        nowhere(&place, &ran);
    }
}

#[test]
fn a_key_on_the_command_line_does_not_stay_in_the_process_list() {
    let server = Server::start(|_, _| {
        thread::sleep(Duration::from_mins(10));
        Ok(())
    });
    let place = Place::new("ps");
    let url = &server.url;
    let mut child = place.start(&["bench", "--url", url, "--api-key", KEY, "--warmup", "0"]);
    until("the request", || !server.generations().is_empty());
    let title = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    let title = String::from_utf8_lossy(&title).into_owned();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        title.contains(url.as_str()) && !title.contains(KEY),
        "{title}"
    );
}
