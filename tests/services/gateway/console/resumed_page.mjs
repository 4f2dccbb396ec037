// Reads a stream as the console does, from the gateway at the address given, and prints what came.

const [address, path] = process.argv.slice(2);
const { fetch } = globalThis;
globalThis.sessionStorage = { getItem: () => null };
globalThis.document = { dispatchEvent() {} };
globalThis.fetch = (name, options) => fetch(`${address}/${name}`, options);

const { request, stream } = await import(path);
const signal = AbortSignal.timeout(20_000);
const response = await request("POST", "v1/chat/completions", {}, signal);
const came = [];
try {
  for await (const data of stream(response, signal)) came.push(data === "[DONE]" ? data : (JSON.parse(data).choices?.[0]?.delta.content ?? data));
} catch (error) {
  came.push(error.message);
}
console.log(JSON.stringify(came));
