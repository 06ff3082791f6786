// Package cli is Calferry's command line. Data goes to stdout, everything else to stderr, and every failure
// is one line that says what to do, with an exit code that tells its kind.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/calferry/calferry/pkg/config"
	"github.com/calferry/calferry/pkg/lifecycle"
	"github.com/calferry/calferry/pkg/redisconn"
	"github.com/calferry/calferry/pkg/telemetry"
)

// Exit codes. `calferry sync` ends with the worst that holds; its help tells the order. What a signal ends has the code
// that shells give it: 130, or 143.
const (
	exitOK          = 0
	exitFailed      = 1
	exitQuarantined = 3
	exitHeld        = 4
	exitAuth        = 5
	exitFeed        = 6
	exitTimedOut    = 7
)

// exitError carries an exit code beside what went wrong. A nil err prints nothing: the command has said it.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// App is one run of the command line.
type App struct {
	Stdout, Stderr io.Writer
	// Stdin answers questions, which are asked on a terminal only; it may be nil.
	Stdin     io.Reader
	LookupEnv func(string) (string, bool)
	// Terminal tells whether stderr is one: progress lines are for people.
	Terminal bool

	configFile string
	args       []string
}

// Main runs the command line on the process's own streams and returns the exit code.
func Main(ctx context.Context, args []string) int {
	redisconn.Quiet()
	a := &App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv,
		Terminal: telemetry.IsTerminal(os.Stderr),
	}
	return a.Run(ctx, args)
}

// Run executes args and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	a.args = args
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitFailed, err}
	}
	if signalled, ok := errors.AsType[*lifecycle.SignalError](context.Cause(ctx)); ok {
		exit = &exitError{signalled.ExitCode(), exit.err}
	}
	if exit.err != nil {
		_, _ = fmt.Fprintf(a.Stderr, "calferry: %v\n", orSignal(ctx, exit.err))
	}
	return exit.code
}

// orSignal is the signal that ended ctx, if err only tells that something did.
func orSignal(ctx context.Context, err error) error {
	signalled, ok := errors.AsType[*lifecycle.SignalError](context.Cause(ctx))
	if ok && errors.Is(err, context.Canceled) {
		return signalled
	}
	return err
}

func (a *App) root() *cobra.Command {
	root := group("calferry", "Keeps Google calendars in step with iCalendar feeds")
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, version()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; `%s --help` lists the flags", flagError(err), cmd.CommandPath())
	})
	def, _ := a.LookupEnv("CALFERRY_CONFIG")
	root.PersistentFlags().StringVar(&a.configFile, "config", def, "YAML configuration file [CALFERRY_CONFIG]")
	root.AddCommand(
		a.upCommand(), a.syncCommand(), a.planCommand(), a.doctorCommand(), a.statusCommand(),
		a.feedCommand(), a.accountCommand(), a.holdsCommand(), a.quarantineCommand(),
		a.repairCommand(), a.adoptCommand(), a.purgeCommand(), a.queueCommand(),
		a.exportCommand(), a.importCommand(), a.alertsCommand(), a.auditCommand(),
		a.serveCommand(), a.provisionCommand(), a.simulateCommand(),
		a.keygenCommand(), a.configCommand(), a.versionCommand(), a.manCommand(),
	)
	return root
}

// oneShot marks commands that do one thing for a person. They log only when --log-level is given: what matters
// is in their result, and a failure is one line.
const oneShot = "one-shot"

// env is what a command's settings came to.
type env struct {
	log     *slog.Logger
	binding *config.Binding
}

// command makes a command whose settings are the given structs, filled from flags, environment and the
// configuration file before run is called.
func (a *App) command(use, short string, args cobra.PositionalArgs, settings []any, run func(context.Context, *env, []string) error) *cobra.Command {
	tel := &telemetry.Config{}
	cmd := &cobra.Command{Use: use, Short: short, Args: explainArgs(args), Annotations: map[string]string{}}
	binding, bindErr := config.Bind(cmd.Flags(), append([]any{tel}, settings...)...)
	cmd.Flags().SortFlags = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if bindErr != nil {
			return bindErr
		}
		all, err := config.Bind(pflag.NewFlagSet("all", pflag.ContinueOnError), allSettings()...)
		if err != nil {
			return err
		}
		binding.Accept(all)
		if err := binding.Load(a.configFile, a.LookupEnv); err != nil {
			return err
		}
		log, err := telemetry.NewLogger(a.Stderr, tel.LogLevel, tel.LogFormat, a.Terminal)
		if err != nil {
			return err
		}
		if cmd.Annotations[oneShot] != "" && binding.Source("log-level") == config.FromDefault {
			log = slog.New(slog.DiscardHandler)
		}
		return run(cmd.Context(), &env{log: log, binding: binding}, args)
	}
	return cmd
}

func explainArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
		}
		return nil
	}
}

// group makes a command that only has subcommands.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q; `%s --help` lists them", args[0], cmd.CommandPath())
		}
		return nil
	}, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(sub...)
	return cmd
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func (a *App) versionCommand() *cobra.Command {
	return a.command("version", "Print the version", cobra.NoArgs, nil, func(context.Context, *env, []string) error {
		_, err := fmt.Fprintln(a.Stdout, "calferry", version())
		return err
	})
}
