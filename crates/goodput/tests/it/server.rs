//! A small server on a thread a connection: answers what it is told to, and remembers what it was
//! asked.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// How many answers were asked for before it.
    pub(crate) number: usize,
}

impl Asked {
    pub(crate) fn is_generation(&self) -> bool {
        self.method == "POST" && self.path.ends_with("/completions")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The text of the whole prompt.
    pub(crate) fn prompt(&self) -> String {
        let body = self.json();
        match body["messages"].as_array() {
            Some(messages) => messages
                .iter()
                .map(|m| m["content"].as_str().unwrap())
                .collect::<Vec<_>>()
                .join("\n"),
            None => body["prompt"].as_str().unwrap().to_owned(),
        }
    }
}

type Answer = dyn Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync;

/// The server; it ends with the test's process.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Lists one model, `m`, and lets `answer` answer whatever generates; the rest is 404.
    pub(crate) fn start(
        answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::raw(move |asked, socket| match asked.path.as_str() {
            _ if asked.is_generation() => answer(asked, socket),
            "/v1/models" => whole(
                socket,
                200,
                &json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
            ),
            _ => whole(socket, 404, &json!({"error": {"message": "Not Found"}})),
        })
    }

    /// Lets `answer` answer everything.
    pub(crate) fn raw(
        answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                let small = thread::Builder::new().stack_size(256 << 10);
                small.spawn(move || serve(socket, &seen, &*answer)).unwrap();
            }
        });
        Self { url, asked }
    }

    /// Everything it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// What was asked of it that generates.
    pub(crate) fn generations(&self) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(Asked::is_generation);
        asked
    }
}

fn serve(socket: TcpStream, seen: &Mutex<Vec<Asked>>, answer: &Answer) {
    let _ = socket.set_nodelay(true);
    let mut reader = BufReader::new(socket);
    // A client that goes away ends the connection, not the test.
    while let Ok(Some(mut asked)) = read(&mut reader) {
        {
            let mut seen = seen.lock().unwrap();
            asked.number = seen.iter().filter(|a| a.is_generation()).count();
            seen.push(asked.clone());
        }
        if answer(&asked, reader.get_mut()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse().unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(Some(Asked {
        method,
        path,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        number: 0,
    }))
}

/// Writes a whole answer in JSON.
pub(crate) fn whole(socket: &mut TcpStream, status: u16, body: &Value) -> io::Result<()> {
    text(socket, status, "application/json", &body.to_string())
}

/// Writes a whole answer of any type.
pub(crate) fn text(
    socket: &mut TcpStream,
    status: u16,
    media_type: &str,
    body: &str,
) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all((head + body).as_bytes())
}

/// A stream of chunks, one write each.
pub(crate) struct Stream<'a>(&'a mut TcpStream);

impl<'a> Stream<'a> {
    pub(crate) fn begin(socket: &'a mut TcpStream) -> io::Result<Self> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes())?;
        Ok(Self(socket))
    }

    /// One event.
    pub(crate) fn event(&mut self, data: &str) -> io::Result<()> {
        let event = format!("data: {data}\n\n");
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        self.0.write_all(chunk.as_bytes())
    }

    /// One token of a chat answer.
    pub(crate) fn token(&mut self, text: &str) -> io::Result<()> {
        let delta = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
        self.event(&json!({"model": "m", "choices": [delta]}).to_string())
    }

    /// The finish, the usage (with `more` beside it) and the end mark.
    pub(crate) fn finish(
        mut self,
        reason: &str,
        prompt: u32,
        tokens: u32,
        more: &Value,
    ) -> io::Result<()> {
        let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
        self.event(&json!({"model": "m", "choices": [choice]}).to_string())?;
        let mut last = json!({
            "model": "m", "choices": [],
            "usage": {"prompt_tokens": prompt, "completion_tokens": tokens,
                      "total_tokens": prompt + tokens},
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            last[name] = value.clone();
        }
        self.event(&last.to_string())?;
        self.event("[DONE]")?;
        self.0.write_all(b"0\r\n\r\n")
    }
}

/// A whole answer of `tokens` tokens, streamed without a pause.
pub(crate) fn stream(socket: &mut TcpStream, tokens: u32) -> io::Result<()> {
    let mut stream = Stream::begin(socket)?;
    for n in 0..tokens {
        stream.token(&format!("w{n} "))?;
    }
    stream.finish("length", 10, tokens, &Value::Null)
}
