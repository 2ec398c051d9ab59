// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Api: questions to the daemon. Every answer also says whether the daemon could
// be reached and whether it knows who asks.

export class ApiError extends Error {
  constructor({ message, code = 'internal', field = '', remedy = '', status = 0 }) {
    super(message);
    Object.assign(this, { code, field, remedy, status });
  }
  // text is all of it in one line.
  get text() {
    return (this.field ? this.field + ': ' : '') + this.message + (this.remedy ? '; ' + this.remedy : '');
  }
}

const listeners = [];

// onReach calls f with 'ok', 'lost' or 'login' after every answer.
export const onReach = (f) => listeners.push(f);
const tell = (what) => listeners.forEach((f) => f(what));

const patience = 20000; // milliseconds

// path builds an address; query values may be lists, empty ones are left out.
export function path(parts, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const v of [value].flat()) if (v !== undefined && v !== null && v !== '') params.append(name, v);
  }
  const search = params.toString();
  return '/v1/' + parts.map(encodeURIComponent).join('/') + (search ? '?' + search : '');
}

// request asks for an address and returns the Response, or throws ApiError.
export async function request(address, { method = 'GET', body, signal } = {}) {
  const headers = { 'X-Fairway': '1', Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(address, { method, headers, signal, credentials: 'same-origin', cache: 'no-store', body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (cause) {
    if (signal && signal.aborted && signal.reason?.name !== 'TimeoutError') throw cause;
    tell('lost');
    throw new ApiError({ code: 'offline', message: 'the daemon does not answer', remedy: 'is fairway up running? This page retries automatically' });
  }
  if (response.ok) { tell('ok'); return response; }
  const error = await response.json().then((b) => b.error, () => null);
  tell(response.status === 401 ? 'login' : 'ok');
  throw new ApiError({ message: 'the daemon answered ' + response.status, ...error, status: response.status });
}

async function json(parts, query, options = {}) {
  const limit = AbortSignal.timeout(patience);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  return (await request(path(parts, query), { ...options, signal })).json();
}

export const get = (parts, query, signal) => json(parts, query, { signal });
export const post = (parts, body) => json(parts, {}, { method: 'POST', body: body ?? {} });
export const put = (parts, body) => json(parts, {}, { method: 'PUT', body });

// logout ends the session of the cookie.
export async function logout() {
  await request('/logout', { method: 'POST', signal: AbortSignal.timeout(patience) });
  tell('login');
}

// login trades a token for a cookie that scripts cannot read.
export async function login(token) {
  let response;
  try {
    response = await fetch('/login', {
      method: 'POST', credentials: 'same-origin', headers: { 'X-Fairway': '1', 'Content-Type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ token }),
    });
  } catch {
    throw new ApiError({ code: 'offline', message: 'the daemon does not answer' });
  }
  if (response.ok) return;
  const error = await response.json().then((b) => b.error, () => null);
  throw new ApiError({ message: 'the token is not valid', remedy: 'ask an admin for one: fairway token create', ...error, status: response.status });
}
