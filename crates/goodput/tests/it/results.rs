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
