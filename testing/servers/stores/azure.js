// Azurite with what it lacks, started by azure.py: node azure.js [options of Azurite's], with AZURITE as its folder.
//
// - Two requests of Data Lake Storage's own protocol: list the files below a folder, and delete a folder.
// - `startFrom`, by which a list of blobs begins there, that name included.
// - A change is on disk before its client hears of it; Azurite itself saves its index every five seconds.
"use strict";

const crypto = require("crypto");
const http = require("http");
const path = require("path");

const SOURCE = path.join(process.env.AZURITE, "node_modules", "azurite", "dist", "src");
const [ACCOUNT, KEY] = process.env.AZURITE_ACCOUNTS.split(":");
const VERSION = "2021-12-02";
const SIGNED = ["content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
  "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"];

const part = (name) => require(path.join(SOURCE, name));

/** What stands in `Authorization` where the shared key is known. */
function signature(method, url, headers) {
  const plain = SIGNED.map((name) => (name === "content-length" && headers[name] === "0" ? "" : headers[name] || ""));
  const own = Object.keys(headers).filter((name) => name.startsWith("x-ms-")).sort();
  const queries = [...new Set(url.searchParams.keys())].sort();
  const lines = [method, ...plain, ...own.map((name) => `${name}:${headers[name]}`)];
  const place = [`/${ACCOUNT}${url.pathname}`, ...queries.map((name) => `${name}:${url.searchParams.getAll(name).sort()}`)];
  const hash = crypto.createHmac("sha256", Buffer.from(KEY, "base64"));
  return `SharedKey ${ACCOUNT}:${hash.update([...lines, ...place].join("\n"), "utf8").digest("base64")}`;
}

/** Ask Azurite itself, in the protocol of blobs. */
function ask(port, method, target) {
  const url = new URL(target, `http://127.0.0.1:${port}`);
  const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": VERSION };
  headers.authorization = signature(method, url, headers);
  return new Promise((done, failed) => {
    const request = http.request(url, { method, headers }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => done({ status: answer.statusCode, text: Buffer.concat(chunks).toString() }));
    });
    request.on("error", failed).end();
  });
}

const plainText = (text) => text.replace(/&(lt|gt|quot|apos|amp);/g, (_, name) =>
  ({ lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" })[name]);
const inside = (text, name) => plainText((text.match(new RegExp(`<${name}>([^]*?)</${name}>`)) || ["", ""])[1]);

async function blobs(port, container, prefix, marker, most) {
  const query = new URLSearchParams({ restype: "container", comp: "list", prefix, maxresults: most });
  if (marker) query.set("marker", marker);
  const { status, text } = await ask(port, "GET", `/${ACCOUNT}/${container}?${query}`);
  const paths = (text.match(/<Blob>[^]*?<\/Blob>/g) || []).map((blob) => ({
    name: inside(blob, "Name"),
    contentLength: inside(blob, "Content-Length"),
    lastModified: inside(blob, "Last-Modified"),
    etag: inside(blob, "Etag"),
    creationTime: String((BigInt(Date.parse(inside(blob, "Creation-Time"))) + 11644473600000n) * 10000n),
  }));
  return { status, paths, next: inside(text, "NextMarker") };
}

function answer(response, status, body, headers = {}) {
  response.writeHead(status, { "x-ms-version": VERSION, "content-type": "application/json", ...headers });
  response.end(body && JSON.stringify(body));
}

const missing = { error: { code: "PathNotFound", message: "The specified path does not exist." } };

async function list(port, container, query, response) {
  const folder = (query.get("directory") || "").replace(/\/+$/, "");
  const most = query.get("maxResults") || "5000";
  const found = await blobs(port, container, folder && `${folder}/`, query.get("continuation"), most);
  if (found.status !== 200) return answer(response, found.status, missing);
  if (folder && !found.paths.length && !query.get("continuation")) return answer(response, 404, missing);
  return answer(response, 200, { paths: found.paths }, found.next ? { "x-ms-continuation": found.next } : {});
}

async function deleteFolder(port, container, folder, response) {
  let count = 0;
  for (let found; !found || found.paths.length; count += found.paths.length) {
    found = await blobs(port, container, `${folder.replace(/\/+$/, "")}/`, "", "5000");
    for (const { name } of found.paths) await ask(port, "DELETE", `/${ACCOUNT}/${container}/${encodeURIComponent(name)}`);
  }
  return count ? answer(response, 200) : answer(response, 404, missing);
}

/** True where the request is one of Data Lake Storage's, which is answered here. */
function dataLake(request, response) {
  const url = new URL(request.url, `http://${request.headers.host}`);
  const [, , container, ...rest] = url.pathname.split("/");
  const lists = request.method === "GET" && url.searchParams.get("resource") === "filesystem";
  const deletes = request.method === "DELETE" && url.searchParams.get("recursive") === "true";
  if (!lists && !deletes) return false;
  const port = request.socket.localPort;
  if (request.headers.authorization !== signature(request.method, url, request.headers)) {
    answer(response, 403, { error: { code: "AuthenticationFailed", message: "The signature is another one." } });
  } else if (lists) {
    list(port, container, url.searchParams, response);
  } else {
    deleteFolder(port, container, decodeURIComponent(rest.join("/")), response);
  }
  return true;
}

const containers = part("blob/handlers/ContainerHandler").default.prototype;
for (const name of ["listBlobFlatSegment", "listBlobHierarchySegment"]) {
  const whole = containers[name];
  containers[name] = async function (...told) {
    const found = await whole.apply(this, told);
    const first = told[told.length - 1].request.getQuery("startFrom") || "";
    found.segment.blobItems = found.segment.blobItems.filter((blob) => blob.name >= first);
    return found;
  };
}

const indexes = [];
for (const name of ["blob/persistence/LokiBlobMetadataStore", "common/persistence/LokiExtentMetadataStore"]) {
  const store = part(name).default.prototype;
  const init = store.init;
  store.init = async function () {
    await init.call(this);
    indexes.push(this.db);
  };
}

/** Its answer waits until the indexes are on disk. */
function saveFirst(response) {
  const end = response.end;
  response.end = function (...rest) {
    const saves = indexes.map((index) => new Promise((done) => index.saveDatabase(done)));
    Promise.all(saves).then(() => end.apply(this, rest));
    return this;
  };
}

const factory = part("blob/BlobRequestListenerFactory").default.prototype;
const create = factory.createRequestListener;
factory.createRequestListener = function () {
  const blob = create.call(this);
  return (request, response) => {
    if (dataLake(request, response)) return;
    if (request.method !== "GET" && request.method !== "HEAD") saveFirst(response);
    blob(request, response);
  };
};

part("blob/main");
