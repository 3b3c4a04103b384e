//! The result folder: what is in it whatever becomes of the program that writes it.

use crate::{
    program::{FULL_DISK, Place, until},
    server::{Server, stream},
};

#[test]
fn a_killed_run_leaves_a_folder_that_can_be_read() {
    let server = Server::start(|_, socket| stream(socket, 3));
    let place = Place::new("killed");
    let mut child = place.start(&[
        "sweep",
        "--url",
        &server.url,
        "--concurrency",
        "1,2",
        "--rate",
        "0.001",
        "--requests",
        "3",
        "--out",
        "out",
    ]);
    let result = place.path.join("out/result.json");
    // The open-loop point waits a quarter of an hour for its first request.
    until("two points on disk", || {
        std::fs::read_to_string(&result).is_ok_and(|text| text.contains("\"point\": 1"))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let result = place.result();
    assert_eq!(result["complete"], false);
    assert_eq!(result["points"].as_array().unwrap().len(), 2);
    let why = result["incomplete_because"].as_str().unwrap();
    assert!(why.contains("killed"), "{why}");
    let ran = place.run(&["report", "out"]);
    assert!(ran.stdout.contains("INCOMPLETE"), "{ran}");
    assert!(place.read("out/report.html").contains("incomplete"));
}

/// It left requests and no row: the command that judges them is named, and works.
#[test]
fn a_run_that_was_killed_at_its_first_point_is_not_lost() {
    let free = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&free);
    let server = Server::start(move |asked, socket| {
        while asked.number >= 6 && !seen.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        stream(socket, 3)
    });
    let place = Place::new("killed-early");
    let flags = ["--concurrency", "2", "--requests", "50", "--warmup", "0"];
    let base = [
        "bench",
        "--url",
        &server.url,
        "--out",
        "out",
        "--slo",
        "ttft=10s,tpot=10s",
    ];
    let mut child = place.start(&[&base[..], &flags].concat());
    let rows = place.path.join("out/requests.jsonl");
    until("the first rows", || {
        rows.metadata().is_ok_and(|m| m.len() > 0)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let ran = place.run(&["report", "out"]).exits(3);
    assert!(ran.stdout.contains("INCOMPLETE"), "{ran}");
    let ran = ran.says(&["no load point came to its end; 6 measured requests of 6"]);
    let (_, command) = ran
        .stderr
        .split_once("hint: they are judged by goodput ")
        .unwrap();
    let command: Vec<&str> = command.split_whitespace().collect();
    assert!(command.ends_with(&["--concurrency", "2"]), "{command:?}");
    let judged = place.run(&[&command[..], &["--out", "judged"]].concat());
    let judged = judged.exits(3);
    assert!(judged.stdout.contains("INCOMPLETE"), "{judged}");
    let result: serde_json::Value =
        serde_json::from_str(&place.read("judged/result.json")).unwrap();
    let point = &result["points"][0];
    assert_eq!(
        (&point["requests"], &point["concurrency"]),
        (&6.into(), &2.into())
    );
    // Without the document neither SLO nor load is known, and the rows are there all the same.
    std::fs::remove_file(place.path.join("out/result.json")).unwrap();
    place
        .run(&["report", "out"])
        .exits(3)
        .says(&["INCOMPLETE", "goodput report --import out/requests.jsonl"]);
    free.store(true, std::sync::atomic::Ordering::Relaxed);
}

#[test]
fn what_could_not_be_written_is_said_and_not_pointed_to() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("unwritten");
    std::fs::create_dir_all(place.path.join("out/report.html")).unwrap();
    let base = ["bench", "--url", &server.url, "--out", "out"];
    let flags = ["--requests", "2", "--concurrency", "1", "--warmup", "0"];
    for args in [[&base[..], &flags].concat(), vec!["report", "out"]] {
        let ran = place.run(&args).exits(3).one_error();
        let ran = ran.says(&["cannot write out/report.html: ", "directory"]);
        let last = ran.stdout.lines().last().unwrap();
        assert!(last.contains("out/  result.json  points.csv"), "{ran}");
        assert!(last.ends_with("exit 3"), "{ran}");
    }
}

#[test]
fn a_page_that_does_not_fit_on_the_disk_leaves_the_old_one() {
    let server = Server::start(|_, socket| stream(socket, 2));
    let place = Place::new("torn");
    let flags = ["--requests", "2", "--concurrency", "1", "--warmup", "0"];
    place.bench(&server.url, &flags).measured();
    let before = place.read("out/report.html");
    for page in ["out/report.html", "out/other.html"] {
        let args = ["report", "out", "--html", page];
        let ran = place.run_under(FULL_DISK, &args);
        ran.exits(3).says(&["cannot write", page]);
    }
    assert_eq!(place.read("out/report.html"), before);
    let left: Vec<_> = place.all_files().into_iter().map(|file| file.0).collect();
    let torn = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".part") || name == "other.html"
    };
    assert_eq!(left.iter().find(torn), None);
}
