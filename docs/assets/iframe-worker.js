/* A worker for pages that are opened from a folder, where browsers allow none: the search runs in a hidden frame.
   It stands in place of the shim that the theme would load from the network. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "Search";
      document.body.append(frame);
      const inner = (this.inner = frame.contentWindow);
      inner.document.open();
      inner.document.write("<!doctype html><html><body></body></html>");
      inner.document.close();
      inner.postMessage = (data) => this.answer(data);
      inner.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(new URL(one, url).href)));
      this.load(url).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.send(data));
      });
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inner.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = reject;
        this.inner.document.body.append(script);
      });
    }

    send(data) {
      this.inner.dispatchEvent(new MessageEvent("message", { data }));
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      if (this.ready) this.send(data);
      else this.waiting.push(data);
    }

    terminate() {}
  };
}
