// The few parts of the extension interface that are used.

declare namespace chrome.devtools {
  interface Told<F> {
    addListener(heard: F): void;
  }
  interface Panel {
    readonly onShown: Told<(view: Window) => void>;
    readonly onHidden: Told<() => void>;
  }
  const panels: {
    readonly themeName: string;
    create(title: string, icon: string, page: string, made: (panel: Panel) => void): void;
  };
  interface EvalFailure {
    isError?: boolean;
    isException?: boolean;
    code?: string;
    description?: string;
    value?: string;
  }
  const inspectedWindow: {
    eval(
      expression: string,
      options: { frameURL?: string },
      done: (result: unknown, failure?: EvalFailure) => void,
    ): void;
    getResources(done: (resources: { url: string; type?: string }[]) => void): void;
  };
}
